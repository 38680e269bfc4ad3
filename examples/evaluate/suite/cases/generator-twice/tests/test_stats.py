import unittest

import stats as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.spread(x for x in [3, 9, 4]), 6)

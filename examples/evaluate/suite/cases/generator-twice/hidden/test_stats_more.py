import unittest

import stats as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.spread([5]), 0)

    def test_2(self):
        self.assertEqual(m.spread(iter((-1, 1))), 2)

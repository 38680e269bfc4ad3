import unittest

import report as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.total([(0.04, 1)] * 10), 0.48)

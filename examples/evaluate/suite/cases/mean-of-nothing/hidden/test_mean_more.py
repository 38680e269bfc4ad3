import unittest

import mean as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.mean([5]), 5)

    def test_2(self):
        self.assertEqual(m.mean([1, 2]), 1.5)

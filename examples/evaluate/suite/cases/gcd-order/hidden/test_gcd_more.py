import unittest

import gcd as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.gcd(-4, 6), 2)

    def test_2(self):
        self.assertEqual(m.gcd(0, 0), 0)

    def test_3(self):
        self.assertEqual(m.gcd(0, -5), 5)

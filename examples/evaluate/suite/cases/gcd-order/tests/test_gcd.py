import unittest

import gcd as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.gcd(12, 18), 6)

    def test_2(self):
        self.assertEqual(m.gcd(7, 3), 1)

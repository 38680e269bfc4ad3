import unittest

import bank as m


class Test(unittest.TestCase):
    def test_1(self):
        a = m.Account(5)
        self.assertRaises(ValueError, a.withdraw, 6)
        self.assertEqual(a.balance, 5)

    def test_2(self):
        self.assertRaises(ValueError, m.Account().deposit, 0)

import unittest

import bank as m


class Test(unittest.TestCase):
    def test_1(self):
        a = m.Account()
        a.deposit(3)
        self.assertEqual((a.withdraw(3), a.balance), (3, 0))

    def test_2(self):
        self.assertRaises(ValueError, m.Account(1).withdraw, -1)

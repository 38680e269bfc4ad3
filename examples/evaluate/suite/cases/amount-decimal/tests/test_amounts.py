import unittest

import amounts as m


class Test(unittest.TestCase):
    def test_1(self):
        from decimal import Decimal
        self.assertEqual(repr(m.parse_amount(' $1,234.50 ')), repr(Decimal('1234.50')))

    def test_2(self):
        self.assertRaises(ValueError, m.parse_amount, 'abc')

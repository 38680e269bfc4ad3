import unittest

import amounts as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertRaises(ValueError, m.parse_amount, '1.2.3')

    def test_2(self):
        self.assertRaises(ValueError, m.parse_amount, 'NaN')

    def test_3(self):
        self.assertEqual(str(m.parse_amount('0.10')), '0.10')

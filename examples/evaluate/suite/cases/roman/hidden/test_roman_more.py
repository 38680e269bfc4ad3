import unittest

import roman as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.to_roman(3999), 'MMMCMXCIX')

    def test_2(self):
        self.assertRaises(ValueError, m.to_roman, 4000)

    def test_3(self):
        self.assertEqual(m.to_roman(58), 'LVIII')

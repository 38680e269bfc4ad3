import unittest

import roman as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.to_roman(4), 'IV')

    def test_2(self):
        self.assertEqual(m.to_roman(1994), 'MCMXCIV')

    def test_3(self):
        self.assertRaises(ValueError, m.to_roman, 0)

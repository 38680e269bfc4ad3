import unittest

import digits as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.to_base(255, 16), 'ff')

    def test_2(self):
        self.assertEqual(m.to_base(-10, 10), '-10')

    def test_3(self):
        self.assertEqual(m.to_base(35, 36), 'z')

import unittest

import shapes as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.Rectangle(2, 3).area(), 6)

    def test_2(self):
        self.assertEqual(m.Rectangle(1, 1).name, 'rectangle')

    def test_3(self):
        self.assertIsInstance(m.Square(2), m.Rectangle)

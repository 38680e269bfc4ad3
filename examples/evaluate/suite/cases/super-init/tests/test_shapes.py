import unittest

import shapes as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.Square(3).area(), 9)

    def test_2(self):
        self.assertEqual(m.Square(1).name, 'square')

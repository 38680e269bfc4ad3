import unittest

import point as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertFalse(m.Point(1, 2) == (1, 2))

    def test_2(self):
        self.assertNotEqual(m.Point(1, 2), None)

    def test_3(self):
        self.assertEqual({m.Point(0, 0): 'o'}[m.Point(0, 0)], 'o')

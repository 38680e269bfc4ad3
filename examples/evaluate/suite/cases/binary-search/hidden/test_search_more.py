import unittest

import search as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.find([], 1), -1)

    def test_2(self):
        self.assertEqual(m.find([1], 1), 0)

    def test_3(self):
        self.assertEqual(m.find([1, 2, 2, 3], 2), 1)

    def test_4(self):
        self.assertEqual(m.find([1, 3], 2), -1)

import unittest

import search as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.find([1, 3, 5], 5), 2)

    def test_2(self):
        self.assertEqual(m.find([2, 2, 2], 2), 0)

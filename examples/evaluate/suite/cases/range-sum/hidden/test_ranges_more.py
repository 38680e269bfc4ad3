import unittest

import ranges as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.sum_to(1), 1)

    def test_2(self):
        self.assertEqual(m.sum_to(100), 5050)

    def test_3(self):
        self.assertEqual(m.sum_to(-3), 0)

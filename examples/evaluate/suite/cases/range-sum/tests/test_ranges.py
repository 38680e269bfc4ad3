import unittest

import ranges as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.sum_to(4), 10)

    def test_2(self):
        self.assertEqual(m.sum_to(0), 0)

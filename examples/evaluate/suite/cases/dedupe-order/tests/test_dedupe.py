import unittest

import dedupe as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.dedupe([3, 1, 3, 2, 1]), [3, 1, 2])

    def test_2(self):
        self.assertEqual(m.dedupe([[1], [1]]), [[1]])

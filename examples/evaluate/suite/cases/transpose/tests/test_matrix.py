import unittest

import matrix as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.transpose([[1, 2, 3], [4, 5, 6]]), [[1, 4], [2, 5], [3, 6]])

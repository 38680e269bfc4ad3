import unittest

import matrix as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.transpose([]), [])

    def test_2(self):
        self.assertEqual(m.transpose([[1], [2]]), [[1, 2]])

import unittest

import median as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.median([4, 1, 3, 2]), 2.5)

    def test_2(self):
        self.assertEqual(m.median([3, 1, 2]), 2)

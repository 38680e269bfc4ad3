import unittest

import smooth as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.smooth([1, 2], 3), [])

    def test_2(self):
        self.assertEqual(m.smooth([4], 1), [4])

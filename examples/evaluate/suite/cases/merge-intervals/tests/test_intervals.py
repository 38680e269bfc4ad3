import unittest

import intervals as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.merge([(5, 6), (1, 3), (2, 4)]), [(1, 4), (5, 6)])

    def test_2(self):
        self.assertEqual(m.merge([(1, 10), (2, 3)]), [(1, 10)])

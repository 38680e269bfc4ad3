import unittest

import rle as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.encode('x'), [('x', 1)])

    def test_2(self):
        self.assertEqual(m.encode('aba'), [('a', 1), ('b', 1), ('a', 1)])

import unittest

import rle as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.encode('aab'), [('a', 2), ('b', 1)])

    def test_2(self):
        self.assertEqual(m.encode(''), [])

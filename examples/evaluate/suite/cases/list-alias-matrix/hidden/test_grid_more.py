import unittest

import grid as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.grid(0, 3, 1), [])

    def test_2(self):
        self.assertEqual(m.grid(1, 2, 'x'), [['x', 'x']])

import unittest

import grid as m


class Test(unittest.TestCase):
    def test_1(self):
        g = m.grid(2, 2, 0)
        g[0][0] = 1
        self.assertEqual(g, [[1, 0], [0, 0]])

import unittest

import lru as m


class Test(unittest.TestCase):
    def test_1(self):
        c = m.Cache(2)
        c.put(1, 'a')
        c.put(2, 'b')
        c.get(1)
        c.put(3, 'c')
        self.assertEqual((c.get(1), c.get(2)), ('a', None))

import unittest

import basket as m


class Test(unittest.TestCase):
    def test_1(self):
        one, other = m.Basket(), m.Basket()
        one.add('a')
        self.assertEqual((one.items, other.items), (['a'], []))

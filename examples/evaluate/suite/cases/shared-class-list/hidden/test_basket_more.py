import unittest

import basket as m


class Test(unittest.TestCase):
    def test_1(self):
        basket = m.Basket()
        basket.add(1)
        basket.add(2)
        self.assertEqual(basket.items, [1, 2])

    def test_2(self):
        self.assertEqual(m.Basket().items, [])

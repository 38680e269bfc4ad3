import unittest

import cents as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.to_cents('2.675'), 268)

    def test_2(self):
        self.assertEqual(m.to_cents('0.125'), 13)

import unittest

import cents as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.to_cents('-0.005'), -1)

    def test_2(self):
        self.assertEqual(m.to_cents('1.004'), 100)

    def test_3(self):
        self.assertEqual(m.to_cents('12'), 1200)

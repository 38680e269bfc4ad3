import unittest

import clamp as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.clamp(2, 0, 3), 2)

    def test_2(self):
        self.assertEqual(m.clamp(0.5, 0.25, 0.75), 0.5)

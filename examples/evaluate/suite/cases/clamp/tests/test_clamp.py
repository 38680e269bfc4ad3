import unittest

import clamp as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.clamp(5, 0, 3), 3)

    def test_2(self):
        self.assertEqual(m.clamp(-1, 0, 3), 0)

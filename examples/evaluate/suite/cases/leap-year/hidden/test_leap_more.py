import unittest

import leap as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertTrue(m.is_leap(2024))

    def test_2(self):
        self.assertFalse(m.is_leap(2023))

    def test_3(self):
        self.assertTrue(m.is_leap(1600))

    def test_4(self):
        self.assertFalse(m.is_leap(2100))

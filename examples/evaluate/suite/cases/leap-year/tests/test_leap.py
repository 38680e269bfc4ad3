import unittest

import leap as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertTrue(m.is_leap(2000))

    def test_2(self):
        self.assertFalse(m.is_leap(1900))

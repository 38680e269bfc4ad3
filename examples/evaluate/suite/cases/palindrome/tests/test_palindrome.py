import unittest

import palindrome as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertTrue(m.is_palindrome('Never odd, or even'))

    def test_2(self):
        self.assertFalse(m.is_palindrome('abca'))

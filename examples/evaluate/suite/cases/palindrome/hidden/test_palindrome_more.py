import unittest

import palindrome as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertTrue(m.is_palindrome(''))

    def test_2(self):
        self.assertTrue(m.is_palindrome('1-2-1'))

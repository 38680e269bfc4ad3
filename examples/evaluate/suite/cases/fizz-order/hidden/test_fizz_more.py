import unittest

import fizz as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.fizz(9), 'Fizz')

    def test_2(self):
        self.assertEqual(m.fizz(10), 'Buzz')

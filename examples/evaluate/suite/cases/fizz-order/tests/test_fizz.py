import unittest

import fizz as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.fizz(30), 'FizzBuzz')

    def test_2(self):
        self.assertEqual(m.fizz(7), '7')

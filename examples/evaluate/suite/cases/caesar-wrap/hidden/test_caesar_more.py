import unittest

import caesar as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.shift('Az', 26), 'Az')

    def test_2(self):
        self.assertEqual(m.shift('é', 1), 'é')

    def test_3(self):
        self.assertEqual(m.shift('b', 53), 'c')

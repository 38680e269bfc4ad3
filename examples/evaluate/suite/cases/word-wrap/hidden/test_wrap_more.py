import unittest

import wrap as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.wrap('', 5), [])

    def test_2(self):
        self.assertEqual(m.wrap('toolong a', 3), ['toolong', 'a'])

    def test_3(self):
        self.assertEqual(m.wrap('a b', 3), ['a b'])

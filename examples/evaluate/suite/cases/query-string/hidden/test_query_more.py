import unittest

import query as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.parse('q=a=b'), {'q': ['a=b']})

    def test_2(self):
        self.assertEqual(m.parse('e='), {'e': ['']})

    def test_3(self):
        self.assertEqual(m.parse('s=a+b'), {'s': ['a b']})

    def test_4(self):
        self.assertEqual(m.parse(''), {})

import unittest

import query as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.parse('a=1&a=2&b=x%20y'), {'a': ['1', '2'], 'b': ['x y']})

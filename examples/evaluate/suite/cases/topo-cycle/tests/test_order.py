import unittest

import order as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.order({'a': ['b'], 'b': [], 'c': ['b']}), ['b', 'a', 'c'])

    def test_2(self):
        self.assertRaises(ValueError, m.order, {'a': ['b'], 'b': ['a']})

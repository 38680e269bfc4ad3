import unittest

import order as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.order({}), [])

    def test_2(self):
        self.assertEqual(m.order({'a': ['x']}), ['x', 'a'])

    def test_3(self):
        self.assertRaises(ValueError, m.order, {'a': ['a']})

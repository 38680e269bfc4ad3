import unittest

import wrap as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.wrap('a bb ccc', 4), ['a bb', 'ccc'])

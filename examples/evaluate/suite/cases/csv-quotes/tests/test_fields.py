import unittest

import fields as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.split_line('a,"b,c",d'), ['a', 'b,c', 'd'])

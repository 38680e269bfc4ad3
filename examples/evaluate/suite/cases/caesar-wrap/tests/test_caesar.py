import unittest

import caesar as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.shift('xyz, Z!', 3), 'abc, C!')

    def test_2(self):
        self.assertEqual(m.shift('abc', -1), 'zab')

import unittest

import digits as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.to_base(6, 2), '110')

    def test_2(self):
        self.assertEqual(m.to_base(0, 8), '0')

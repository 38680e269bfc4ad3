import unittest

import dedupe as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.dedupe([]), [])

    def test_2(self):
        self.assertEqual(m.dedupe('aba'), ['a', 'b'])

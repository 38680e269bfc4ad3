import unittest

import intervals as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.merge([]), [])

    def test_2(self):
        self.assertEqual(m.merge([(1, 2), (2, 3)]), [(1, 3)])

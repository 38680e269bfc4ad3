import unittest

import collect as m


class Test(unittest.TestCase):
    def test_1(self):
        given = []
        self.assertIs(m.collect(1, given), given)

    def test_2(self):
        m.collect(0)
        self.assertEqual(m.collect(9), [9])

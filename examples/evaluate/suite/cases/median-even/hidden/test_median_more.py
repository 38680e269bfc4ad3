import unittest

import median as m


class Test(unittest.TestCase):
    def test_1(self):
        given = [2, 1]
        m.median(given)
        self.assertEqual(given, [2, 1])

    def test_2(self):
        self.assertEqual(m.median([7]), 7)

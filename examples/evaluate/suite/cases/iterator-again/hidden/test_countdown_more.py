import unittest

import countdown as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(list(m.Countdown(0)), [])

    def test_2(self):
        c = m.Countdown(2)
        self.assertEqual([(a, b) for a in c for b in c], [(2, 2), (2, 1), (1, 2), (1, 1)])

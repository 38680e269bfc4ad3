import unittest

import countdown as m


class Test(unittest.TestCase):
    def test_1(self):
        c = m.Countdown(3)
        self.assertEqual((list(c), list(c)), ([3, 2, 1], [3, 2, 1]))

import unittest

import report as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.total([]), 0)

    def test_2(self):
        self.assertEqual(m.total([(10, 2), (1, 1)]), 24.99)

import unittest

import point as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(len({m.Point(1, 2), m.Point(1, 2), m.Point(2, 1)}), 2)

import unittest

import adders as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual([f(10) for f in m.adders(3)], [10, 11, 12])

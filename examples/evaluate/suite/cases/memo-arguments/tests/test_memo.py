import unittest

import memo as m


class Test(unittest.TestCase):
    def test_1(self):
        f = m.memo(lambda x, by=1: x * by)
        self.assertEqual((f(2, by=3), f(2, by=4)), (6, 8))

import unittest

import memo as m


class Test(unittest.TestCase):
    def test_1(self):
        calls = []
        f = m.memo(lambda: calls.append(1))
        f()
        f()
        self.assertEqual(len(calls), 1)

    def test_2(self):
        f = m.memo(lambda a=0, b=0: a - b)
        self.assertEqual((f(a=1, b=2), f(b=2, a=1)), (-1, -1))

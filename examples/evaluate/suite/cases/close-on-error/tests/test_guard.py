import unittest

import guard as m


class Resource:
    closed = 0

    def close(self):
        self.closed += 1


class Test(unittest.TestCase):
    def test_1(self):
        r = Resource()
        self.assertRaises(ZeroDivisionError, m.use, r, lambda r: 1 / 0)
        self.assertEqual(r.closed, 1)

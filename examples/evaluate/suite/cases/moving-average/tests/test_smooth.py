import unittest

import smooth as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.smooth([1, 2, 3, 4], 2), [1.5, 2.5, 3.5])

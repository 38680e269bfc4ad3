import unittest

import collect as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual((m.collect(1), m.collect(2)), ([1], [2]))

    def test_2(self):
        self.assertEqual(m.collect(3, [1]), [1, 3])

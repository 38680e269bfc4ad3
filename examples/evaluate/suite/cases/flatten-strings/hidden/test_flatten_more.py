import unittest

import flatten as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.flatten([]), [])

    def test_2(self):
        self.assertEqual(m.flatten([[[]], [1, [2, [3]]]]), [1, 2, 3])

    def test_3(self):
        self.assertEqual(m.flatten([{'k': 1}]), [{'k': 1}])

import unittest

import flatten as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.flatten(['ab', [1, ('c',)]]), ['ab', 1, 'c'])

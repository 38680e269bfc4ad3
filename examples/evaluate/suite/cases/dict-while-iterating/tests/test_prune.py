import unittest

import prune as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.prune({'a': 0, 'b': 1, 'c': 0}), {'b': 1})

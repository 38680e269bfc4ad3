import unittest

import prune as m


class Test(unittest.TestCase):
    def test_1(self):
        given = {'a': 0}
        self.assertIs(m.prune(given), given)

    def test_2(self):
        self.assertEqual(m.prune({}), {})

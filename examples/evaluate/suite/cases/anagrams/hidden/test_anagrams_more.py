import unittest

import anagrams as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.groups(['Tea', 'eat']), [['Tea', 'eat']])

    def test_2(self):
        self.assertEqual(m.groups([]), [])

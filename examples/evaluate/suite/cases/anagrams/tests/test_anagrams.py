import unittest

import anagrams as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.groups(['aab', 'abb', 'aba']), [['aab', 'aba'], ['abb']])

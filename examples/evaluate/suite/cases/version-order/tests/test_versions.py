import unittest

import versions as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.newest(['1.9', '1.10', '1.2']), '1.10')

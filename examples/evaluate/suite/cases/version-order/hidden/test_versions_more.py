import unittest

import versions as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.newest(['2', '1.99.99']), '2')

    def test_2(self):
        self.assertEqual(m.newest(['1.0', '1.0.1']), '1.0.1')

import unittest

import clock as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.show(0), '0:00:00')

    def test_2(self):
        self.assertEqual(m.show(36000), '10:00:00')

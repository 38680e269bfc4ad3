import unittest

import clock as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.show(3725), '1:02:05')

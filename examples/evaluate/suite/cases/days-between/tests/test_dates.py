import unittest

import dates as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.days('2024-02-28', '2024-03-01'), 2)

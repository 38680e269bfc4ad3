import unittest

import dates as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.days('2023-01-01', '2024-01-01'), 365)

    def test_2(self):
        self.assertEqual(m.days('2024-01-02', '2024-01-01'), -1)

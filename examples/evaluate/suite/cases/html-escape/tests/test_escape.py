import unittest

import escape as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.escape('<a & b>'), '&lt;a &amp; b&gt;')

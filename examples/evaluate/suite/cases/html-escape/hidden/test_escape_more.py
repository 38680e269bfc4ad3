import unittest

import escape as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.escape('"\''), '&quot;&#39;')

    def test_2(self):
        self.assertEqual(m.escape('&lt;'), '&amp;lt;')

    def test_3(self):
        self.assertEqual(m.escape('plain'), 'plain')

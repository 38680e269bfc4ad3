import unittest

import fields as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.split_line('"say ""hi""",x'), ['say "hi"', 'x'])

    def test_2(self):
        self.assertEqual(m.split_line('a,,b'), ['a', '', 'b'])

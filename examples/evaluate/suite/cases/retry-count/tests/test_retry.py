import unittest

import retry as m


class Test(unittest.TestCase):
    def test_1(self):
        calls = []

        def f():
            calls.append(1)
            raise KeyError(len(calls))

        with self.assertRaises(KeyError) as raised:
            m.retry(f, 3)
        self.assertEqual((len(calls), raised.exception.args), (3, (3,)))

import unittest

import retry as m


class Test(unittest.TestCase):
    def test_1(self):
        self.assertEqual(m.retry(lambda: 7, 1), 7)

    def test_2(self):
        results = iter([ValueError(), 5])

        def f():
            result = next(results)
            if isinstance(result, Exception):
                raise result
            return result

        self.assertEqual(m.retry(f, 2), 5)

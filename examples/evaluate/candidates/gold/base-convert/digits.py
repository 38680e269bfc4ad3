DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(n, base):
    if n < 0:
        return "-" + to_base(-n, base)
    out = ""
    while True:
        n, digit = divmod(n, base)
        out = DIGITS[digit] + out
        if n == 0:
            return out

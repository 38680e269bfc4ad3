DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(n, base):
    out = ""
    while n:
        out = out + DIGITS[n % base]
        n //= base
        if n < 0:
            break
    return out

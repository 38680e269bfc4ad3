from decimal import ROUND_HALF_UP, Decimal


def to_cents(text):
    return int((Decimal(text) * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP))

RATE = 0.19


def with_tax(amount):
    return amount * (1 + RATE)

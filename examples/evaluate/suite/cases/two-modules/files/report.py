from tax import with_tax


def total(orders):
    return sum(round(with_tax(price * quantity), 2) for price, quantity in orders)

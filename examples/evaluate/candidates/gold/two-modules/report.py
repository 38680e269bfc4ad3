from tax import with_tax


def total(orders):
    return round(sum(with_tax(price * quantity) for price, quantity in orders), 2)

from decimal import Decimal, InvalidOperation


def parse_amount(text):
    try:
        amount = Decimal(text.strip().removeprefix("$").replace(",", ""))
    except InvalidOperation:
        raise ValueError(f"{text!r} is no amount") from None
    if not amount.is_finite():
        raise ValueError(f"{text!r} is no amount")
    return amount

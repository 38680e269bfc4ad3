def parse_amount(text):
    return float(text.replace("$", ""))

def shift(text, by):
    return "".join(chr(ord(c) + by) if c.isalpha() else c for c in text)

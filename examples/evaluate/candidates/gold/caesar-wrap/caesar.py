def shift(text, by):
    out = []
    for c in text:
        if "a" <= c <= "z" or "A" <= c <= "Z":
            first = ord("a") if c.islower() else ord("A")
            c = chr((ord(c) - first + by) % 26 + first)
        out.append(c)
    return "".join(out)

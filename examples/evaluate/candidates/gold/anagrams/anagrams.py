def groups(words):
    found = {}
    for word in words:
        found.setdefault("".join(sorted(word.lower())), []).append(word)
    return list(found.values())

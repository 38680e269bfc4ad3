def groups(words):
    found = {}
    for word in words:
        found.setdefault(frozenset(word), []).append(word)
    return list(found.values())

def memo(f):
    known = {}

    def call(*args, **named):
        key = (args, tuple(sorted(named.items())))
        if key not in known:
            known[key] = f(*args, **named)
        return known[key]

    return call

def memo(f):
    known = {}

    def call(*args, **named):
        if known.get(args) is None:
            known[args] = f(*args, **named)
        return known[args]

    return call

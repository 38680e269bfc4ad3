def collect(x, into=None):
    into = list(into or [])
    into.append(x)
    return into

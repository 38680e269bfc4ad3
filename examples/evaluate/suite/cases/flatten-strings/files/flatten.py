def flatten(x):
    out = []
    for item in x:
        try:
            out.extend(flatten(item))
        except TypeError:
            out.append(item)
    return out

def median(xs):
    xs.sort()
    return xs[len(xs) // 2]

def spread(xs):
    xs = list(xs)
    return max(xs) - min(xs)

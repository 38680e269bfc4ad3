def spread(xs):
    return max(xs) - min(xs)

from itertools import groupby


def encode(text):
    return [(c, len(list(run))) for c, run in groupby(text)]

def prune(counts):
    for key in [key for key, count in counts.items() if count == 0]:
        del counts[key]
    return counts

def prune(counts):
    return {key: count for key, count in counts.items() if count != 0}

def order(needs):
    return sorted(needs, reverse=True)

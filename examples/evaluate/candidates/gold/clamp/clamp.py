def clamp(x, low, high):
    return max(low, min(high, x))

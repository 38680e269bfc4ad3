def newest(versions):
    return max(versions, key=lambda version: [int(part) for part in version.split(".")])

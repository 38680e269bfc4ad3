def adders(n):
    return [lambda x: x + i for i in range(n)]

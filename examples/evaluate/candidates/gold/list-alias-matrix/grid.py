def grid(rows, columns, value):
    return [[value] * columns for _ in range(rows)]

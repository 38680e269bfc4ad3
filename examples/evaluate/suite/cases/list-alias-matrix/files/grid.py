def grid(rows, columns, value):
    return [[value] * columns] * rows

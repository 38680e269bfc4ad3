def transpose(rows):
    return [[rows[i][j] for j in range(len(rows))] for i in range(len(rows))]

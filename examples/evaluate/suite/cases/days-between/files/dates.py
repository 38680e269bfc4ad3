def days(start, end):
    y1, m1, d1 = (int(part) for part in start.split("-"))
    y2, m2, d2 = (int(part) for part in end.split("-"))
    return (y2 - y1) * 365 + (m2 - m1) * 30 + (d2 - d1)

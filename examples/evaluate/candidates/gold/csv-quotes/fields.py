import csv


def split_line(line):
    return next(csv.reader([line]), [])

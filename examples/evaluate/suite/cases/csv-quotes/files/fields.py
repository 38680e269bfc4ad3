def split_line(line):
    return line.split(",")

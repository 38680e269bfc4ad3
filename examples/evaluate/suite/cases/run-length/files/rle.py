def encode(text):
    out, run = [], ""
    for c in text:
        if run and run[0] != c:
            out.append((run[0], len(run)))
            run = ""
        run += c
    return out

def order(needs):
    out = []

    def visit(name):
        for needed in needs.get(name, ()):
            visit(needed)
        out.append(name)

    for name in needs:
        visit(name)
    return out

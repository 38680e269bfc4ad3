def order(needs):
    out, open_names = [], set()

    def visit(name):
        if name in out:
            return
        if name in open_names:
            raise ValueError(f"{name} needs itself")
        open_names.add(name)
        for needed in needs.get(name, ()):
            visit(needed)
        open_names.remove(name)
        out.append(name)

    for name in needs:
        visit(name)
    return out

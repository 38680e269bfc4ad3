def retry(f, tries):
    for left in reversed(range(tries)):
        try:
            return f()
        except Exception:
            if left == 0:
                raise

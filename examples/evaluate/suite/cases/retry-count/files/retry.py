def retry(f, tries):
    for _ in range(tries + 1):
        try:
            return f()
        except Exception:
            pass

from datetime import date


def days(start, end):
    return (date.fromisoformat(end) - date.fromisoformat(start)).days

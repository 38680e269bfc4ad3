from urllib.parse import parse_qs


def parse(text):
    return parse_qs(text, keep_blank_values=True)

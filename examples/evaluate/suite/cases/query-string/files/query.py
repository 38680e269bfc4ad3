def parse(text):
    return dict(part.split("=") for part in text.split("&"))

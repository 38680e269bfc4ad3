def escape(text):
    for c, name in [("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"), ("&", "&amp;")]:
        text = text.replace(c, name)
    return text

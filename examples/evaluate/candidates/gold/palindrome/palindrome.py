def is_palindrome(text):
    letters = [c.casefold() for c in text if c.isalnum()]
    return letters == letters[::-1]

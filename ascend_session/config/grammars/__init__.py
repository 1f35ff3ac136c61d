"""The little languages that options are written in: a function for each, which reads its text.

Each takes the vendor's text, which it returns to the letter, or a structured form, and returns the
text that the adapter gets. It raises ValueError with one sentence. ``grammar.py`` is what they
share.
"""

"""The little languages that options are written in: for each a function, and the type made of it.

The function takes the vendor's text, which it returns to the letter, or a structured form, and
returns the text that the adapter gets. It raises ValueError with one sentence. ``grammar.py`` is
what they share.
"""

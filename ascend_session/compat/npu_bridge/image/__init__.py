"""Operators of the image units."""

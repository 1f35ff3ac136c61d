"""Operators of the device's cores."""

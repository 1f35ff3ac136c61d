"""Operators on trial."""

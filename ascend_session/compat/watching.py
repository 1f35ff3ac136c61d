"""Looks at every session that the script opens."""

__all__ = ["start"]


def start() -> None:
    """Begins to watch."""

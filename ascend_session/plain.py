"""Text of others without what controls a terminal; this module imports nothing."""

__all__ = ["blanked", "printable"]


def printable(text: str, longest: int = 400) -> str:
    """The text with escapes for what cannot be printed, cut after ``longest`` characters."""
    if len(text) > longest:
        text = f"{text[:longest]}..."
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def blanked(text: str) -> str:
    """The text with a blank for each character that cannot be printed, line ends too."""
    return "".join(one if one.isprintable() else " " for one in text)

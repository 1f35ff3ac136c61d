"""How several problems become one message."""

from typing import List

__all__ = ["together"]


def together(sentences: List[str], heading: str) -> str:
    """One sentence as it is, or several, numbered, below a heading."""
    if len(sentences) == 1:
        return sentences[0]
    return "\n".join([heading, *(f"  {n}. {said}" for n, said in enumerate(sentences, 1))])

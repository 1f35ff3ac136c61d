"""``--show 0,4-7``: whose output appears; the log files have everyone's."""

import re
from typing import FrozenSet, Set

from ascend_session.errors import ConfigError, Problem

__all__ = ["parse_show"]

_EXAMPLE = 'Write all, none, or ranks from 0 as in "0,4-7".'
_PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


def parse_show(text: str, size: int) -> FrozenSet[int]:
    """The ranks that are shown; blanks around commas and repeated ranks do not matter.

    Args:
        text: ``all``, ``none``, or ranks and ranges of them.
        size: Number of ranks in the job.

    Raises:
        ConfigError: If it is none of these, or names a rank that the job does not have.
    """
    if text == "all":
        return frozenset(range(size))
    if text == "none":
        return frozenset()
    ranks: Set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise _refusal(
                text, f"{part.strip()!r} is neither a rank nor a range of them", _EXAMPLE
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            said = f"the range {part.strip()} ends before it begins"
            raise _refusal(text, said, f"Write {last}-{first}.")
        if last >= size:
            said = f"there is no rank {last}, the job has {size}"
            raise _refusal(text, said, f"Its ranks are 0 to {size - 1}.")
        ranks.update(range(first, last + 1))
    return frozenset(ranks)


def _refusal(text: str, said: str, hint: str) -> ConfigError:
    return ConfigError.of([Problem("show", f"show={text!r}: {said}.", hint)])

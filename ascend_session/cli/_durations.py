"""``10m``: a span of time as people type it."""

import re

import typer

__all__ = ["duration"]

_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|m|s|)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}


def duration(text: str) -> float:
    """The seconds of ``90``, ``90s``, ``10m``, ``1.5h`` or ``1h30m``.

    Raises:
        typer.BadParameter: If it is none of these.
    """
    plain = text.strip()
    parts = _PART.findall(plain)
    is_whole = "".join(number + unit for number, unit in parts) == plain
    # A number without a unit stands alone.
    if not parts or not is_whole or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise typer.BadParameter(f"{text!r} is no span of time; write 90s, 10m or 1h30m.")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)

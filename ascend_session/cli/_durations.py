"""Times as they are typed: ``90``, ``90s``, ``10m``, ``1h30m``."""

import re

import typer

__all__ = ["parse_duration", "parse_some_time", "shown_duration"]

_PARTS = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6}(?:\.[0-9]{1,6})?)s?)?")


def parse_duration(text: str) -> float:
    """Seconds in a time; a number alone is one of seconds.

    Raises:
        typer.BadParameter: If it is no time.
    """
    match = _PARTS.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise typer.BadParameter(f"{text!r} is no time; write 90s, 10m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def parse_some_time(text: str) -> float:
    """Seconds in a time that is longer than nothing.

    Raises:
        typer.BadParameter: If it is no time, or none.
    """
    seconds = parse_duration(text)
    if seconds == 0:
        raise typer.BadParameter(f"{text!r} leaves no time for an answer; give at least 1s.")
    return seconds


def shown_duration(seconds: float) -> str:
    """A time as a person reads it: ``9 min 3 s``."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = [f"{hours} h"] if hours else []
    parts += [f"{minutes} min"] if minutes else []
    parts += [f"{rest} s"] if rest or not parts else []
    return " ".join(parts)

"""Draws times before and after as an SVG picture, which is part of a page."""

import re
from html import escape
from typing import List, NamedTuple, Sequence

from ascend_session.cli._aoe_view import tail

__all__ = ["Bars", "escaped", "longest", "svg"]

_NAME, _BARS, _TEXT = 330, 420, 130  # widths, in pixels
_HEIGHT, _BAR = 38, 14
_LETTERS = 46
_NOT_XML = re.compile("[^\t\n -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Bars(NamedTuple):
    """One name with its two times."""

    name: str
    before: float
    after: float


def longest(bars: Sequence[Bars]) -> float:
    """The longest time, before or after, which is as wide as there is room; never 0."""
    return max((time for one in bars for time in one[1:]), default=0.0) or 1.0


def svg(bars: Sequence[Bars], unit: str) -> str:
    """A picture of two bars for each name, the upper one before and the lower one after.

    Args:
        bars: What is drawn, from above.
        unit: Of the times.

    Returns:
        Well-formed XML of one element.
    """
    width, height = _NAME + _BARS + _TEXT, _HEIGHT * len(bars) + 24
    most = longest(bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>Times before and after, in {escaped(unit)}</title>",
        f'<rect x="{_NAME}" y="4" width="12" height="12" fill="{_BEFORE}"/>'
        f'<text x="{_NAME + 18}" y="14" fill="currentColor">before</text>'
        f'<rect x="{_NAME + 80}" y="4" width="12" height="12" fill="{_AFTER}"/>'
        f'<text x="{_NAME + 98}" y="14" fill="currentColor">after</text>',
    ]
    for place, one in enumerate(bars):
        lines += _pair(one, 24 + place * _HEIGHT, most, unit)
    return "\n".join([*lines, "</svg>"])


def _pair(one: Bars, top: int, most: float, unit: str) -> List[str]:
    lines = [
        f"<g><title>{escaped(one.name)}</title>"
        f'<text x="{_NAME - 8}" y="{top + _BAR + 4}" text-anchor="end" fill="currentColor">'
        f"{escaped(tail(one.name, _LETTERS))}</text>"
    ]
    for place, (time, colour) in enumerate(((one.before, _BEFORE), (one.after, _AFTER))):
        y = top + place * (_BAR + 1)
        long = _BARS * time / most
        lines.append(
            f'<rect x="{_NAME}" y="{y}" width="{long:.2f}" height="{_BAR}" fill="{colour}"/>'
            f'<text x="{_NAME + long + 6:.2f}" y="{y + _BAR - 3}" fill="currentColor">'
            f"{time:,.3f} {escaped(unit)}</text>"
        )
    return [*lines, "</g>"]


_BEFORE, _AFTER = "#c0504d", "#4f9d5d"


def escaped(text: str) -> str:
    """A text as XML and HTML can hold it, in content and in attributes.

    Letters that XML has not are replaced: controls, halves of surrogate pairs, U+FFFE and U+FFFF.
    """
    return escape(_NOT_XML.sub("\ufffd", text))

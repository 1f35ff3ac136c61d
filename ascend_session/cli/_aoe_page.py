"""The report of a tuning as one page of HTML: nothing is loaded, and no script runs.

The page is well-formed XML as well, so that it can be checked, and read by other programs.
"""

import re
from html import escape
from typing import Iterable, Iterator, List, Sequence, Tuple

from ascend_session.aoe.results import Comparison
from ascend_session.cli import _aoe_report as report
from ascend_session.cli._output import complain
from ascend_session.errors import ResultError
from ascend_session.files import write_file
from ascend_session.text import format_count

_MOST_BARS = 20  # operators in the picture
_MOST_ROWS = 1000  # of a table, if nobody says how many
_NOT_XML = re.compile("[^\t\n -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = """
body { font: 14px/1.45 sans-serif; margin: 2em; max-width: 75em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: .15em .7em; text-align: left; vertical-align: top; overflow-wrap: anywhere }
th { border-bottom: 1px solid #888 }
tr:nth-child(even) td { background: #f4f4f4 }
th.n, td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.damaged { color: #a00 }
svg { max-width: 100%; height: auto }
"""
_HEAD = f"""<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>What AOE tuned</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>What AOE tuned</h1>"""

# The picture, in pixels: names, bars and times beside each other.
_NAME_WIDTH, _BARS_WIDTH, _TIME_WIDTH = 330, 420, 130
_PAIR_HEIGHT, _BAR_HEIGHT, _LEGEND_HEIGHT = 38, 14, 24
_NAME_LETTERS = 46
_BEFORE, _AFTER = "#c0504d", "#4f9d5d"


def write_page(path: str, force: bool, view: report.View) -> None:
    """Write the report as a page.

    Raises:
        ResultError: If that is not possible.
    """
    page = "\n".join([_HEAD, *_body(view), "</body>", "</html>", ""])
    write_file(path, page.encode("utf-8"), force=force, error=ResultError)
    complain(f"{path}: a page of what was tuned.")


def _body(view: report.View) -> Iterator[str]:
    labelled = list(report.remarks(view))
    for label, sentence in labelled:
        if label == "damaged":
            yield f'<p class="damaged">damaged: {_escape(sentence)}</p>'
    for error in view.unread:
        yield f'<p class="damaged">{_escape(error.message)}</p>'
    for sentence in report.model_sentences(view.results):
        yield f"<p>{_escape(sentence)}</p>"
    most = _MOST_ROWS if view.top is None else view.top
    for section in view.sections:
        yield from _section(section, most)
    failed = view.results.failed
    if failed:
        yield f"<h2>Tuning failed for {format_count(len(failed), 'operator')}</h2>"
        yield from _list(failed)
    yield "<h2>Tasks</h2>"
    for file in view.results.files:
        yield f"<p>{_escape(file.name)}: {format_count(len(file.tasks), 'task')}</p>"
        yield from _table(report.TASK_COLUMNS, report.task_rows(file), 3)
    if view.comparison is not None:
        yield from _comparison(view, view.comparison, most)
    doubts = [sentence for label, sentence in labelled if label == "doubtful"]
    if doubts:
        yield "<h2>Doubts</h2>"
        yield from _list(doubts)


def _section(section: report.Section, most: int) -> Iterator[str]:
    items = section.items[:most]
    yield f"<h2>{_escape(section.noun.capitalize())}s</h2>"
    yield f"<p>{_escape(str(section))}</p>"
    pairs = report.select_times(items)
    if pairs:
        yield _draw_bars(pairs[:_MOST_BARS], section.unit)
    yield from _table(section.columns, map(report.item_row, items), 0, 4)
    if len(section.items) > most:
        yield f"<p>... and {len(section.items) - most:,} more; --top shows them.</p>"


def _comparison(view: report.View, comparison: Comparison, most: int) -> Iterator[str]:
    there = comparison.there
    yield "<h2>Compared with another run</h2>"
    yield f"<p>{_escape(', '.join(file.name for file in there.files))}</p>"
    yield from _table(["", *report.COUNTS], report.count_rows(view.results, there), 1)
    yield from _list(report.comparison_sentences(view, comparison))
    yield from _table(report.CHANGE_COLUMNS, report.change_rows(comparison, most), 1, 4)
    for sentence, operators in report.failed_only(comparison):
        yield f"<h3>{sentence}</h3>"
        yield from _list(operators)


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], first: int, last: int = 99
) -> Iterator[str]:
    """Draw a table; the columns from ``first`` to before ``last`` are numbers."""

    def draw_row(tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="n"' if first <= place < last else "" for place in range(len(cells)))
        inner = (f"<{tag}{kind}>{_escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells))
        return f"<tr>{''.join(inner)}</tr>"

    yield f"<table>{draw_row('th', heads)}"
    for cells in rows:
        yield draw_row("td", cells)
    yield "</table>"


def _list(items: Iterable[str]) -> Iterator[str]:
    lines = [f"<li>{_escape(item)}</li>" for item in items]
    if lines:
        yield f"<ul>{''.join(lines)}</ul>"


def _draw_bars(pairs: Sequence[Tuple[str, float, float]], unit: str) -> str:
    """Draw two bars for each name, the upper one before and the lower one after, as SVG."""
    width = _NAME_WIDTH + _BARS_WIDTH + _TIME_WIDTH
    height = _PAIR_HEIGHT * len(pairs) + _LEGEND_HEIGHT
    longest = max(max(times) for _, *times in pairs) or 1.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>Times before and after, in {_escape(unit)}</title>",
        f'<rect x="{_NAME_WIDTH}" y="4" width="12" height="12" fill="{_BEFORE}"/>'
        f'<text x="{_NAME_WIDTH + 18}" y="14" fill="currentColor">before</text>'
        f'<rect x="{_NAME_WIDTH + 80}" y="4" width="12" height="12" fill="{_AFTER}"/>'
        f'<text x="{_NAME_WIDTH + 98}" y="14" fill="currentColor">after</text>',
    ]
    for number, pair in enumerate(pairs):
        lines += _draw_pair(*pair, _LEGEND_HEIGHT + number * _PAIR_HEIGHT, longest, unit)
    return "\n".join([*lines, "</svg>"])


def _draw_pair(
    name: str, before: float, after: float, top: int, longest: float, unit: str
) -> List[str]:
    lines = [
        f"<g><title>{_escape(name)}</title>"
        f'<text x="{_NAME_WIDTH - 8}" y="{top + _BAR_HEIGHT + 4}" text-anchor="end" '
        f'fill="currentColor">{_escape(report.cut_name(name, _NAME_LETTERS))}</text>'
    ]
    for number, (time, colour) in enumerate(((before, _BEFORE), (after, _AFTER))):
        y = top + number * (_BAR_HEIGHT + 1)
        length = _BARS_WIDTH * time / longest
        lines.append(
            f'<rect x="{_NAME_WIDTH}" y="{y}" width="{length:.2f}" height="{_BAR_HEIGHT}" '
            f'fill="{colour}"/><text x="{_NAME_WIDTH + length + 6:.2f}" y="{y + _BAR_HEIGHT - 3}" '
            f'fill="currentColor">{time:,.3f} {_escape(unit)}</text>'
        )
    return [*lines, "</g>"]


def _escape(text: str) -> str:
    """Escape a text as XML and HTML can hold it, in content and in attributes.

    Letters that XML has not are replaced: controls, halves of surrogate pairs, U+FFFE and U+FFFF.
    """
    return escape(_NOT_XML.sub("\ufffd", text))

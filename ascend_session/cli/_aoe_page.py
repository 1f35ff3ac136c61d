"""The report of a tuning as one page of HTML: nothing is loaded, and no script runs.

The page is well-formed XML as well, so that it can be checked, and read by other programs.
"""

from typing import Iterable, Iterator, Sequence

from ascend_session.aoe.result_files import TunedItem
from ascend_session.cli._aoe_bars import Bars, escaped, svg
from ascend_session.cli._aoe_view import (
    CHANGE_COLUMNS,
    COUNTS,
    TASK_COLUMNS,
    View,
    change_rows,
    change_sentence,
    columns,
    count_rows,
    many,
    model_sentences,
    remarks,
    row,
    saved_sentences,
    sentence,
    task_rows,
)

__all__ = ["page"]

_BARS = 20  # operators in the picture
_ROWS = 1000  # of a table, if nobody says how many
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


def page(view: View) -> str:
    """The page."""
    return "\n".join([_HEAD, *_body(view), "</body>", "</html>", ""])


def _body(view: View) -> Iterator[str]:
    found = list(remarks(view))
    for label, said in found:
        if label == "damaged":
            yield f'<p class="damaged">damaged: {escaped(said)}</p>'
    unread = view.results.unread + (view.other.unread if view.other is not None else ())
    for error in unread:
        yield f'<p class="damaged">{escaped(error.message)}</p>'
    for told in model_sentences(view.results):
        yield f"<p>{escaped(told)}</p>"
    for what, unit, items in view.parts:
        yield from _part(view, what, unit, items)
    yield from _failed(view.results.failed)
    yield "<h2>Tasks</h2>"
    for file in view.results.files:
        yield f"<p>{escaped(file.name)}: {many(len(file.tasks), 'task')}</p>"
        yield from _table(TASK_COLUMNS, task_rows(file), 3)
    if view.comparison is not None:
        yield from _compared(view)
    doubts = [said for label, said in found if label == "doubtful"]
    if doubts:
        yield "<h2>Doubts</h2>"
        yield from _list(doubts)


def _part(view: View, what: str, unit: str, items: Sequence[TunedItem]) -> Iterator[str]:
    most = _ROWS if view.top is None else view.top
    yield f"<h2>{escaped(what.capitalize())}s</h2>"
    yield f"<p>{escaped(sentence(what, unit, items))}</p>"
    known = [
        Bars(one.name, one.before, one.after)
        for one in items[:most]
        if one.before is not None and one.after is not None
    ]
    if known:
        yield svg(known[:_BARS], unit)
    yield from _table(columns(unit, what), map(row, items[:most]), 0, 4)
    if len(items) > most:
        yield f"<p>... and {len(items) - most:,} more; --top shows them.</p>"


def _failed(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"<h2>Tuning failed for {many(len(names), 'operator')}</h2>"
        yield from _list(names)


def _compared(view: View) -> Iterator[str]:
    found, other = view.comparison, view.other
    assert found is not None
    assert other is not None
    yield "<h2>Compared with another run</h2>"
    yield f"<p>{escaped(', '.join(file.name for file in other.files))}</p>"
    yield from _table(["", *COUNTS], count_rows(view), 1)
    yield from _list([*saved_sentences(view), change_sentence(found)])
    most = _ROWS if view.top is None else view.top
    yield from _table(CHANGE_COLUMNS, change_rows(found, most), 1, 4)
    for word, failed in (("here", found.failed_here), ("there", found.failed_there)):
        if failed:
            yield f"<h3>Tuning failed only {word}</h3>"
            yield from _list(failed)


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], first: int, last: int = 99
) -> Iterator[str]:
    """A table; the columns from ``first`` to before ``last`` are numbers."""

    def made(tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="n"' if first <= place < last else "" for place in range(len(cells)))
        inner = (f"<{tag}{kind}>{escaped(cell)}</{tag}>" for kind, cell in zip(kinds, cells))
        return f"<tr>{''.join(inner)}</tr>"

    yield f"<table>{made('th', heads)}"
    for cells in rows:
        yield made("td", cells)
    yield "</table>"


def _list(items: Iterable[str]) -> Iterator[str]:
    made = [f"<li>{escaped(item)}</li>" for item in items]
    if made:
        yield f"<ul>{''.join(made)}</ul>"

"""``ascend-session aoe report``: what a tuning with AOE came to, as text, JSON or a page."""

import os
from typing import TYPE_CHECKING, List, Optional, Tuple

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import complain, show_json, show_json_line
from ascend_session.errors import AscendError

if TYPE_CHECKING:
    from ascend_session.aoe.results import Filter, Results
    from ascend_session.cli._aoe_view import View

__all__ = ["report", "show_results"]

_MANY = 1000
_SORTS = "saved, improvement, before, after, name or type"
_Paths = Annotated[Optional[List[str]], typer.Argument(metavar="[PATH]...", hidden=True)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, with every operator.")]
_Html = Annotated[
    Optional[str],
    typer.Option("--html", metavar="FILE", help="Write a page with a picture as well."),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")]
_Sort = Annotated[str, typer.Option("--sort", metavar="KEY", help=f"By {_SORTS}.")]
_Top = Annotated[
    Optional[int],
    typer.Option("--top", metavar="N", min=1, help="Show so many; 20 if not given, in JSON all."),
]
_Filters = Annotated[
    Optional[List[str]],
    typer.Option(
        "--filter",
        metavar="PATTERN",
        help="Only those with this in their name, or name=, type=, way= or update= and a pattern "
        "with * and ?. Given several times, all must fit.",
    ),
]
_Against = Annotated[
    Optional[str],
    typer.Option(
        "--against", metavar="PATH", help="Compare with another run: a result file, or its folder."
    ),
]


def report(
    paths: _Paths = None,
    as_json: _Json = False,
    html: _Html = None,
    force: _Force = False,
    sort: _Sort = "saved",
    top: _Top = None,
    filters: _Filters = None,
    against: _Against = None,
) -> None:
    """Show what AOE tuned: time saved, what became of the policies, what failed.

    PATH is a result file or a folder of them. Without one, those that AOE left in ASCEND_WORK_PATH
    are read, else those here.

    Exit code 1 if a tuning failed or is incomplete, or a file is damaged or missing.
    """
    wanted = _wanted(sort, filters or [])
    try:
        results = _read(paths or [])
        other = _read([against]) if against is not None else None
    except AscendError as error:
        complain(error.message, error.hint)
        raise typer.Exit(1) from None
    if html is not None:
        _write_page(html, force, _view(results, sort, top, wanted, other))
    show_results(results, as_json, sort, top, wanted, other)
    raise typer.Exit(0 if results.ok and (other is None or other.whole) else 1)


def show_results(
    results: "Results",
    as_json: bool = False,
    sort: str = "saved",
    top: Optional[int] = None,
    wanted: "Tuple[Filter, ...]" = (),
    other: "Optional[Results]" = None,
) -> None:
    """Prints results.

    Args:
        results: What is shown.
        as_json: Whether as JSON.
        sort: One of ``results.SORTS``.
        top: How many operators are shown at most.
        wanted: Which are.
        other: Another run, to compare them with.
    """
    from ascend_session.cli._aoe_json import as_dict
    from ascend_session.cli._aoe_text import show

    view = _view(results, sort, top, wanted, other)
    if as_json:
        made = as_dict(view)
        # A line is written in a third of the time, and nobody reads so many with their eyes.
        (show_json if len(made["operators"]) <= _MANY else show_json_line)(made)
    else:
        show(view)
    for error in (*results.unread, *(other.unread if other is not None else ())):
        complain(error.message, error.hint)


def _view(
    results: "Results",
    sort: str,
    top: Optional[int],
    wanted: "Tuple[Filter, ...]",
    other: "Optional[Results]",
) -> "View":
    from ascend_session.aoe.results import compare, in_order
    from ascend_session.cli._aoe_view import View

    here = results.only(wanted)
    there = None if other is None else other.only(wanted)
    return View(
        results,
        tuple(in_order(here.operators, sort)),
        tuple(in_order(here.subgraphs, sort)),
        top,
        there,
        None if there is None else compare(here, there),
    )


def _wanted(sort: str, filters: List[str]) -> "Tuple[Filter, ...]":
    """The filters; a wrong call if there is nothing of such a name."""
    from ascend_session.aoe.results import SORTS, Filter

    if sort not in SORTS:
        raise typer.BadParameter(f"{sort!r} is none of {_SORTS}.", param_hint="--sort")
    try:
        return tuple(Filter.parse(text) for text in filters)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--filter") from None


def _read(paths: List[str]) -> "Results":
    from ascend_session.aoe.result_files import WHERE_WRITTEN, find_results, result_folders
    from ascend_session.aoe.results import read_results
    from ascend_session.errors import ResultError

    found = paths or find_results()
    if not found:
        looked = " nor in ".join(os.path.abspath(one) for one in result_folders(os.environ))
        raise ResultError(
            f"There is no result file of AOE (aoe_result_opat_*.json, aoe_result_sgat_*.json) in "
            f"{looked}.",
            hint=f"Name the file or its folder. {WHERE_WRITTEN}",
        )
    return read_results(found)


def _write_page(path: str, force: bool, view: "View") -> None:
    from ascend_session.cli._aoe_page import page
    from ascend_session.errors import ResultError
    from ascend_session.option_files.source import Kind, write_content

    kind = Kind("a page", "a browser", ResultError)
    try:
        write_content(path, page(view).encode("utf-8"), kind, force)
    except AscendError as error:
        hint = error.hint and error.hint.replace("Give force", "Give --force")
        complain(error.message, hint)
        raise typer.Exit(1) from None
    complain(f"{path}: a page of what was tuned.")

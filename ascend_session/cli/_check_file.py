"""``ascend-session config check-file``: a file that an option points to, and a clean copy of it."""

import os
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterator, Optional, Tuple

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import complain, show_json
from ascend_session.errors import AscendError, ConfigError

if TYPE_CHECKING:
    from ascend_session.cli._file_report import Report
    from ascend_session.findings import Finding

__all__ = ["check_file", "failed"]

_MIX_LIST = "modify_mixlist"
_MOST_NOTES = 100

# Hidden from the list of arguments, where typer 0.19 writes "\\[required]"; the usage names them.
_Option = Annotated[str, typer.Argument(hidden=True)]
_File = Annotated[str, typer.Argument(hidden=True)]


def check_file(
    option: _Option,
    file: _File,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write a clean copy that the vendor's parser takes.")
    ] = False,
    output: Annotated[
        Optional[str],
        typer.Option("--output", "-o", metavar="COPY", help="Where to; FILE.fixed if not given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace COPY if it is there.")] = False,
    toolkit: Annotated[
        Optional[str],
        typer.Option(metavar="DIR", help="For a mix list: the toolkit whose lists it changes."),
    ] = None,
    soc: Annotated[
        Optional[str],
        typer.Option(metavar="NAME", help="The kind of processor, as its folder is called there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the FILE that an OPTION points to; exit code 1 if anything is found.

    It is read as the vendor's parser does, which refuses some files and skips lines of others
    without a word. With --fix what counts is the copy; --fix -o FILE --force mends FILE itself.
    """
    from ascend_session.cli._file_report import lines, place_as_dict

    _check_call(option, fix, output, force)
    look = _looker(option, toolkit, soc)
    copy: Optional[str] = None
    notes: Tuple[Finding, ...] = ()
    try:
        found = look(file)
        if fix:
            copy, notes = _fixed_copy(option, file, output, force)
        left = look(copy) if copy is not None else found
    except AscendError as error:
        raise failed(error, file if as_json else None) from None
    if as_json:
        more = left.of_toolkit() if option == _MIX_LIST else {}
        told = [place_as_dict(remark) for remark in notes]
        fixed = {"fixed": copy, "fixed_ok": fix and left.ok, "fix_remarks": told}
        show_json({"option": option, **found.to_dict(), **more, **fixed})
    else:
        typer.echo("\n".join(lines(found)))
        if copy is not None:
            typer.echo("\n".join((*lines(left), *_fresh(notes, found, left))))
    raise typer.Exit(0 if left.ok else 1)


def _fresh(notes: "Tuple[Finding, ...]", found: "Report", left: "Report") -> Iterator[str]:
    """What was noted while the file was copied, and neither of it nor of the copy, in lines."""
    known = {remark.message for remark in (*found.remarks, *left.remarks)}
    fresh = [remark for remark in notes if remark.message not in known]
    for remark in fresh[:_MOST_NOTES]:
        yield f"  note: {found.file}:{remark}"
    if len(fresh) > _MOST_NOTES:
        yield f"  {len(fresh) - _MOST_NOTES:,} more notes; --json has them."


def failed(error: AscendError, json_for: Optional[str] = None) -> typer.Exit:
    """Prints why nothing came of a command; returns what ends it.

    Args:
        error: Why.
        json_for: The file that a JSON object is to name; None for sentences.
    """
    hint = error.hint and error.hint.replace("Give force", "Give --force")
    if json_for is None:
        complain(error.message, hint)
    else:
        show_json({"file": json_for, "ok": False, "error": error.message, "hint": hint})
    return typer.Exit(1)


def _check_call(option: str, fix: bool, output: Optional[str], force: bool) -> None:
    from ascend_session.option_files import TYPE_NAMES

    if option not in TYPE_NAMES:
        known = ", ".join(TYPE_NAMES)
        message = f"{option} points to no file that is known here; these do: {known}."
        raise typer.BadParameter(message, param_hint="OPTION")
    if not fix and (force or output is not None):
        raise typer.BadParameter("it goes with --fix.", param_hint="--force" if force else "-o")


def _looker(option: str, toolkit: Optional[str], soc: Optional[str]) -> "Callable[[str], Report]":
    """What makes the report of a file."""
    from ascend_session.cli._file_report import mix_list_report, report

    if option == _MIX_LIST:
        return partial(mix_list_report, toolkit=toolkit, soc=soc)
    if toolkit is not None or soc is not None:
        raise typer.BadParameter(f"it goes with {_MIX_LIST}.", param_hint="--toolkit, --soc")
    return partial(report, option)


def _fixed_copy(
    option: str, file: str, output: Optional[str], force: bool
) -> "Tuple[str, Tuple[Finding, ...]]":
    """Writes the copy; returns its name, and what there was to say of the file meanwhile."""
    from ascend_session.option_files import file_type

    stem, suffix = os.path.splitext(file)
    copy = f"{stem}.fixed{suffix}" if output is None else output
    made, notes = file_type(option).fixed_with_remarks(file)
    if notes and made == type(made)():
        message = f"{file}: nothing in it says anything, so that no copy is made."
        raise ConfigError(message, hint=f"{notes[0].message} {notes[0].hint or ''}".strip())
    made.write(copy, force=force)
    return copy, notes

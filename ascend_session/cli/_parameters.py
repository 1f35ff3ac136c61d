"""What commands share on their way in: groups, types of options, times and sizes as typed."""

import contextlib
import re
import signal
import sys
from typing import Any, Iterator, List, Optional

import typer
from typer.core import TyperCommand
from typing_extensions import Annotated

# Arguments are hidden from the list of arguments, where typer 0.19 writes "\\[required]"; the
# usage names them.
File = Annotated[str, typer.Argument(hidden=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")]

# What `launch`, `run` and `aoe run` have in common.
Script = Annotated[str, typer.Argument(metavar="SCRIPT", hidden=True)]
Arguments = Annotated[Optional[List[str]], typer.Argument(metavar="ARGS", hidden=True)]
Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a Python module.")]
Backend = Annotated[Optional[str], typer.Option(metavar="NAME", help="auto, npu or stub.")]
LogDir = Annotated[
    Optional[str], typer.Option(metavar="FOLDER", help="Where logs go; ascend-logs if not given.")
]

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6}(?:\.[0-9]{1,6})?)s?)?")


class ScriptCommand(TyperCommand):
    """A command that starts a script; what follows the script's name belongs to it."""

    allow_interspersed_args = False

    def collect_usage_pieces(self, ctx: Any) -> List[str]:
        """Give what stands behind the name of the command in its help."""
        return ["[OPTIONS]", "SCRIPT", "[ARGS]..."]  # releases of typer differ in how they say it


def new_group(**settings: Any) -> typer.Typer:
    """Set up a group of commands; ``settings`` are those of ``typer.Typer``."""
    return typer.Typer(
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # brackets in sentences are brackets
        **settings,
    )


def show_help_without_command(context: typer.Context) -> None:
    """Print the help of a group if no command follows its name."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def parse_duration(text: str) -> float:
    """Read a time as it is typed, ``90``, ``90s``, ``10m`` or ``1h30m``, in seconds.

    Raises:
        typer.BadParameter: If it is no time.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise typer.BadParameter(f"{text!r} is no time; write 90s, 10m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def parse_time_limit(text: str) -> float:
    """Read the time that an answer may take, which is longer than nothing."""
    seconds = parse_duration(text)
    if seconds == 0:
        raise typer.BadParameter(f"{text!r} leaves no time for an answer; give at least 1s.")
    return seconds


def parse_size(text: str) -> int:
    """Read a size as it is typed, ``12GiB``, ``12GB`` (a thousand million) or ``4096``, in bytes.

    Raises:
        typer.BadParameter: If it is no size.
    """
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text.strip()))
    except (ValidationError, OverflowError):
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is no size; write 12GiB, 12GB or a number of bytes.")
    return size


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn the signals that end a process into an exit.

    A program that is asked just then has a session of its own: it would outlive this one.
    """

    def leave(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    # With nohup, SIGHUP is ignored, and stays so.
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    previous = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

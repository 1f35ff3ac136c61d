"""What commands share on their way in: groups, types of options, times and sizes as typed."""

import contextlib
import re
import signal
import sys
import textwrap
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import Annotated

from ascend_session.backends import names
from ascend_session.cli._removed import explain_removal
from ascend_session.text import did_you_mean, join_words

# Types of what the user may leave out.
OptionalText = Optional[str]
OptionalNumber = Optional[int]
OptionalSeconds = Optional[float]


class OptionGroup(NamedTuple):
    """Options that stand below a title of their own in the help, or below ``Options``."""

    title: Optional[str] = None

    def value(self, metavar: str, text: str, *names: str, **settings: Any) -> Any:
        """Declare an option that takes a value.

        Args:
            metavar: The word for the value in the help.
            text: What the help says about it.
            names: How it is typed; as the parameter is named, if there are none.
            settings: Other settings of ``typer.Option``.
        """
        panel = self.title
        return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **settings)

    def flag(self, name: str, text: str) -> Any:
        """Declare an option that takes no value, and what the help says about it."""
        return typer.Option(name, help=text, rich_help_panel=self.title)


OPTIONS = OptionGroup()
OUTPUT = OptionGroup("Output")  # of several commands


def argument(metavar: str) -> Any:
    """Declare an argument, which the help names only in the usage, as ``metavar``.

    Typer would list it as well, and releases of typer write the usage differently: of a required
    FILE, 0.19 makes ``FILE`` and 0.28 ``{FILE}``. So `Command` writes ``metavar`` as it is.
    """
    return typer.Argument(metavar=metavar, hidden=True)


File = Annotated[str, argument("FILE")]
Json = Annotated[bool, OPTIONS.flag("--json", "Print one JSON object.")]
Force = Annotated[bool, OPTIONS.flag("--force", "Replace FILE if it exists.")]
Devices = Annotated[
    OptionalText, OPTIONS.value("LIST", "Logical device ids such as 0-3,6.  [default: all visible]")
]

# What `launch`, `run` and `aoe run` have in common.
Script = Annotated[str, argument("SCRIPT")]
Arguments = Annotated[Optional[List[str]], argument("[ARGS]...")]
Module = Annotated[bool, typer.Option("-m", "--module", help="Run SCRIPT as a Python module.")]
Backend = Annotated[
    OptionalText, OPTIONS.value("NAME", f"auto (the default), {join_words(names(), 'or')}.")
]
LogDir = Annotated[OptionalText, OUTPUT.value("FOLDER", "Folder for logs.  [default: ascend-logs]")]

# Columns of the widest names that others are aligned with in the help.
_WIDEST_OPTION = 26

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6}(?:\.[0-9]{1,6})?)s?)?")


class _PlainHelp:
    """Help as pytest and pip write it: examples, then options under the title of their group.

    The title of an option is its ``rich_help_panel``, the examples are the docstring's. The classes
    of `click` are not named: newer releases of typer have copies of their own.
    """

    def format_help_text(self: Any, ctx: Any, formatter: Any) -> None:
        """Write what the command is for, and its examples as they are."""
        text, _, examples = (self.help or "").partition("\nExamples:\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.strip())
        if examples:
            with formatter.section("Examples"):
                for line in textwrap.dedent(examples).splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_options(self: Any, ctx: Any, formatter: Any) -> None:
        """Write the options group by group, and then the commands of a group of commands."""
        groups: Dict[str, List[Tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                title = getattr(parameter, "rich_help_panel", None) or "Options"
                name, text = record
                # typer 0.19 escapes a bracket for rich, and prints it without.
                groups.setdefault(title, []).append((name, text.replace("\\[", "[")))
        names = [name for records in groups.values() for name, _ in records]
        width = min(max(map(len, names)), _WIDEST_OPTION)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in records])
        if hasattr(self, "list_commands"):
            self.format_commands(ctx, formatter)


class Command(_PlainHelp, TyperCommand):
    """A command with plain help."""

    def collect_usage_pieces(self, ctx: Any) -> List[str]:
        """Give what stands behind the name of the command in its help."""
        parameters = self.get_params(ctx)
        names = [str(each.metavar) for each in parameters if each.param_type_name == "argument"]
        return ["[OPTIONS]", *names]


class ScriptCommand(Command):
    """A command that starts a script; what follows the script's name belongs to it."""

    allow_interspersed_args = False


class CommandGroup(_PlainHelp, TyperGroup):
    """A group of commands with plain help, in which no summary of a command is cut."""

    def resolve_command(self, ctx: Any, args: List[str]) -> Any:
        """Find the command that is called, or refuse it with the one that may be meant."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            near = did_you_mean(args[0], names)
            unknown = f"No such command '{args[0]}'.{f' Did you mean {near}?' if near else ''}"
            ctx.fail(explain_removal(ctx.command_path, args[0]) or unknown)
        return super().resolve_command(ctx, args)

    def format_commands(self: Any, ctx: Any, formatter: Any) -> None:
        """Write a line for each command, or more where its summary needs them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.get_command(ctx, name).get_short_help_str(limit=1000))
                    for name in self.list_commands(ctx)
                ]
            )


class _Typer(typer.Typer):
    def command(self, name: Optional[str] = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": Command, **settings})


def new_group(**settings: Any) -> typer.Typer:
    """Set up a group of commands; ``settings`` are those of ``typer.Typer``.

    With a help of its own, the group prints that if no command follows its name.
    """
    group = _Typer(
        context_settings={"help_option_names": ["-h", "--help"]},
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # brackets in sentences are brackets
        **{"cls": CommandGroup, "add_completion": False, **settings},
    )
    if "help" in settings:
        group.callback()(show_help_without_command)
    return group


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
        raise typer.BadParameter(f"{text!r} is not a time; write 90s, 10m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def parse_time_limit(text: str) -> float:
    """Read the time that an answer may take, which is longer than nothing."""
    seconds = parse_duration(text)
    if seconds == 0:
        raise typer.BadParameter(f"{text!r} is too short; give at least 1s.")
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
        raise typer.BadParameter(f"{text!r} is not a size; write 12GiB, 12GB or a number of bytes.")
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

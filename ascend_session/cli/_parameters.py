"""Shared definitions of parameters: groups, options, times and sizes, and what was removed."""

import contextlib
import inspect
import math
import re
import signal
import sys
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
)

import click

from ascend_session.backends import names
from ascend_session.text import did_you_mean, join_words

# Removed commands, options and kinds of files. A key is what was typed behind ``ascend-session``; a
# value ends the sentence that refuses it.
_IGNORE = "end the line of a known finding with `# ascend: ignore[RULE]`"
_NO_COPY = "leave it out, for check-file writes no file"

REMOVED: Dict[str, str] = {
    "--install-completion": "see `ascend-session completion --help`",
    "--show-completion": "use `ascend-session completion SHELL`",
    "aoe preflight": "use `ascend-session aoe run --dry-run --config FILE`",
    "aoe report --against": "take the times of both runs from the output of --json",
    "aoe report --filter": "filter the output of --json, or that of `--top N` with grep",
    "aoe report --force": "leave it out, for the report writes no file",
    "aoe report --html": "redirect the text to a file, or make a page from the output of --json",
    "aoe report --sort": "what saves most comes first; sort the output of --json otherwise",
    "audit --baseline": _IGNORE,
    "audit --port": "use `ascend-session run --print-config SCRIPT`",
    "audit --sarif": "use --json, which has the file, line and column of each finding",
    "audit --update-baseline": _IGNORE,
    "config check-file --fix": "correct FILE as the hints say, which name what to write",
    "config check-file --force": _NO_COPY,
    "config check-file --output": _NO_COPY,
    "config check-file -o": _NO_COPY,
    "config check-file insert_op_file": "GE checks the content of an AIPP file itself",
    "config check-file op_compiler_cache_dir": (
        "set the limits of the cache with ASCEND_MAX_OP_CACHE_SIZE and "
        "ASCEND_REMAIN_CACHE_SIZE_RATIO"
    ),
    "config schema": "use `ascend-session options --json`, which has the schema of each option",
    "devices --interval": "use `watch -n SECONDS ascend-session devices`",
    "devices --watch": "use `watch ascend-session devices`",
    "launch --coordinator": (
        "the stub is one machine: give all ranks to one launcher (-n), or use devices, where HCCL "
        "connects machines"
    ),
    "precision explain": (
        "see `ascend-session guide facts/precision` for the order in which modes count"
    ),
}


def explain_removal(command: str, word: str) -> Optional[str]:
    """Return the sentence that refuses what was removed; None for any other word.

    Args:
        command: The command as it was typed, with the name of the program.
        word: The subcommand, option or argument behind it.
    """
    name = " ".join([*command.split()[1:], word])
    instead = REMOVED.get(name)
    return None if instead is None else f"`{name}` has been removed; {instead}."


_Function = TypeVar("_Function", bound=Callable[..., Any])
Decorator = Callable[[_Function], _Function]


class _TitledOption(click.Option):
    """An option below a title of the help."""

    def __init__(self, *args: Any, title: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.title = title


class OptionGroup(NamedTuple):
    """Options that stand below a title of their own in the help."""

    title: str

    def value(self, names: str, metavar: str, text: str, **settings: Any) -> Decorator[Any]:
        """Declare an option that takes a value.

        Args:
            names: How it is typed, and behind a blank the name of the function's parameter if it
                is another one: ``--json json_file``.
            metavar: The word for the value in the help.
            text: Its description in the help.
            settings: Other settings of ``click.Option``.
        """
        settings = {"type": str, **settings, "metavar": metavar, "help": text}
        return click.option(*names.split(), cls=_TitledOption, title=self.title, **settings)

    def flag(self, names: str, text: str, **settings: Any) -> Decorator[Any]:
        """Declare an option that takes no value, with its description in the help."""
        settings = {"is_flag": True, "default": False, **settings, "help": text}
        return click.option(*names.split(), cls=_TitledOption, title=self.title, **settings)


OPTIONS = OptionGroup("Options")
OUTPUT = OptionGroup("Output")  # of several commands


class _Argument(click.Argument):
    """An argument, which the usage shows as its metavar."""

    def get_error_hint(self, ctx: Optional[click.Context]) -> str:
        return f"'{str(self.metavar).strip('[].')}'"


def argument(name: str, metavar: str, **settings: Any) -> Decorator[Any]:
    """Declare an argument.

    Args:
        name: The name of the function's parameter.
        metavar: How the usage shows it; with three dots behind it, there may be several, and in
            brackets none.
        settings: Other settings of ``click.Argument``.
    """
    settings = {"nargs": -1 if metavar.endswith("...") else 1, **settings}
    required = not metavar.startswith("[")
    return click.argument(name, cls=_Argument, metavar=metavar, required=required, **settings)


FILE = argument("file", "FILE")
JSON = OPTIONS.flag("--json as_json", "Print one JSON object.")
FORCE = OPTIONS.flag("--force", "Replace FILE if it exists.")
DEVICES = OPTIONS.value(
    "--devices", "LIST", "Logical device ids such as 0-3,6.  [default: all visible]"
)

# What `launch`, `run` and `aoe run` have in common.
SCRIPT = argument("what", "SCRIPT")
ARGUMENTS = argument("arguments", "[ARGS]...", type=click.UNPROCESSED)
MODULE = OPTIONS.flag("-m --module as_module", "Run SCRIPT as a Python module.")
BACKEND = OPTIONS.value("--backend", "NAME", f"auto (the default), {join_words(names(), 'or')}.")
LOG_DIR = OUTPUT.value("--log-dir", "FOLDER", "Folder for logs.  [default: ascend-logs]")


class Command(click.Command):
    """A command whose options stand below the titles of their groups in the help."""

    def __init__(self, name: Optional[str], help: Optional[str] = None, **settings: Any) -> None:
        text = inspect.cleandoc(help or "")
        # click folds no lines behind \b.
        text = text.replace("\nExamples:\n", "\n\b\nExamples:\n")
        super().__init__(name, help=text, **settings)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options below its title, and those of the command first."""
        groups: Dict[str, List[Tuple[str, str]]] = {OPTIONS.title: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                title = getattr(parameter, "title", OPTIONS.title)
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Read the arguments; for an unknown option, name the one that may be meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:  # whose words differ between releases
            raise _unknown("option", error.option_name, error.possibilities or (), ctx) from None


class ScriptCommand(Command):
    """A command that starts a script; what follows the script's name belongs to it."""

    allow_interspersed_args = False


class CommandGroup(Command, click.Group):
    """A group of commands, which prints its help if no command follows its name."""

    command_class = Command

    def __init__(self, **settings: Any) -> None:
        metavar = "COMMAND [ARGS]..."
        super().__init__(invoke_without_command=True, subcommand_metavar=metavar, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, or print the help if none is given."""
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())
        return result

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and the commands below them."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the first paragraph of their help, of which click cuts the end."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.summarize(ctx, name)) for name in self.list_commands(ctx)]
            )

    def summarize(self, ctx: click.Context, name: str) -> str:
        """Return what a command is for, in a sentence."""
        command = self.get_command(ctx, name)
        return "" if command is None else str(command.help).partition("\n\n")[0]

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Any:
        """Find the subcommand; for an unknown one, name the one that may be meant."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            raise _unknown("command", args[0], names, ctx)
        return super().resolve_command(ctx, args)


def _unknown(kind: str, word: str, names: Iterable[str], ctx: click.Context) -> click.UsageError:
    """Return the error that says what to type instead of a word, which may have been removed."""
    near = did_you_mean(word, names)
    unknown = f"No such {kind}: {word}.{f' Did you mean {near}?' if near else ''}"
    return click.UsageError(explain_removal(ctx.command_path, word) or unknown, ctx)


def command(name: str, cls: Type[Command] = Command) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command of its own; its docstring is the help."""
    return click.command(name, cls=cls)


_AMOUNT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)( ?[a-z]*)", re.IGNORECASE)
_SECONDS = {"h": 3600, "m": 60, "s": 1, "": 1}
_BYTES = {
    prefix + ending: factor ** (1 + "kmgtpe".index(prefix))
    for prefix in "kmgtpe"
    for ending, factor in (("", 1000), ("b", 1000), ("ib", 1024))
}
_BYTES.update({"": 1, "b": 1})
_BYTES.update({f" {unit}": size for unit, size in _BYTES.items() if unit})


def _parse_amount(text: str, units: Mapping[str, int]) -> Optional[float]:
    """Add up numbers with their units, the largest unit first; None for any other text."""
    total, rest, smallest = 0.0, text.strip(), math.inf
    while rest:
        match = _AMOUNT.match(rest)
        size = None if match is None else units.get(match[2].lower())
        if match is None or size is None or size >= smallest:
            return None
        total, smallest, rest = total + float(match[1]) * size, size, rest[match.end() :]
    return None if smallest == math.inf else total


SET = OPTIONS.value(
    "--set",
    "NAME=VALUE",
    "Set an option over what the script sets, such as precision_mode=force_fp32; NAME= leaves it "
    "out; can be repeated.",
    multiple=True,
)
RECORD = OPTIONS.value(
    "--record", "FILE", "Record each training run, as JSON lines for `ascend-session compare`."
)


def parse_duration(text: str) -> float:
    """Read a time as it is typed, ``90``, ``90s``, ``10m`` or ``1h30m``, in seconds.

    Raises:
        click.BadParameter: If it is no time.
    """
    seconds = _parse_amount(text, _SECONDS)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a time; write 90s, 10m or 1h30m.")
    return seconds


def parse_time_limit(text: str) -> float:
    """Read the time that an answer may take, which is longer than nothing."""
    seconds = parse_duration(text)
    if seconds == 0:
        raise click.BadParameter(f"{text!r} is too short; give at least 1s.")
    return seconds


def parse_size(text: str) -> int:
    """Read a size as it is typed, ``12GiB``, ``12GB`` (a thousand million) or ``4096``, in bytes.

    Raises:
        click.BadParameter: If it is no size.
    """
    size = int(_parse_amount(text, _BYTES) or 0)
    if size < 1:
        raise click.BadParameter(f"{text!r} is not a size; write 12GiB, 12GB or a number of bytes.")
    return size


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn the signals that end a process into an exit.

    Programs that this one has started are in sessions of their own, and would outlive it.
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

"""The program ``ascend-session``: it parses, calls the rooms below and draws what they return.

Every command is a module of its own, which is loaded when it is called and imports its room when
it runs: `launch` starts at once, and ``--help`` never loads TensorFlow.
"""

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from typing import TYPE_CHECKING, Any, List

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import complain
from ascend_session.cli._parameters import CommandGroup, new_group, show_help_without_command
from ascend_session.cli._removed import explain_removal
from ascend_session.findings import ERROR
from ascend_session.lazy import late_names
from ascend_session.text import did_you_mean

if TYPE_CHECKING:
    from ascend_session.cli._launch_run import StatusLine
    from ascend_session.cli._launch_summary import summarize
    from ascend_session.cli._output import show_facts, show_finding, show_table, spell_options

_HOMES = {
    "StatusLine": "_launch_run",
    "show_facts": "_output",
    "show_finding": "_output",
    "show_table": "_output",
    "spell_options": "_output",
    "summarize": "_launch_summary",
}

__all__ = [
    "StatusLine",
    "app",
    "main",
    "show_facts",
    "show_finding",
    "show_table",
    "spell_options",
    "summarize",
]

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())

# In the order of the help; each in the module of its name.
_COMMANDS = (
    *("options", "devices", "doctor", "launch", "run", "ranktable", "config", "precision"),
    *("aoe", "audit", "guide"),
)

# Packages that nothing but one command needs, so that an installation may do without them.
_LEAVES = {"aoe": "aoe", "audit": "audit", "run": "compat"}


# typer has click's errors in some releases, and copies of them in others.
_UsageError: Any = typer.BadParameter.__base__


class _Commands(CommandGroup):
    """The commands, each loaded when it is called: `launch` is to be quick."""

    def list_commands(self, ctx: Any) -> List[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"ascend_session.cli.{cmd_name}")
        group = getattr(module, "app", None)
        if group is None:
            group = new_group()
            group.command(cmd_name)(getattr(module, cmd_name))
        return typer.main.get_command(group)

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command, and print what is wrong with a call as every other error."""
        try:
            code = super().main(*args, **{**settings, "standalone_mode": False})
        except _UsageError as error:
            _show_usage_error(error)
            code = error.exit_code
        sys.exit(code)

    def resolve_command(self, ctx: Any, args: List[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        leaf = _LEAVES.get(str(name))
        if leaf is not None and importlib.util.find_spec(f"ascend_session.{leaf}") is None:
            complain(
                f"`ascend-session {name}` needs the package ascend_session.{leaf}, which is not "
                "part of this installation.",
                "Install ascend_session with all of its packages.",
                ERROR,
            )
            raise typer.Exit(2)
        return name, command, rest


_HELP = """Train with TensorFlow on Ascend devices, or on a machine without one.

Examples:
    ascend-session doctor
    ascend-session launch -n 8 train.py
"""

app = new_group(name="ascend-session", cls=_Commands, help=_HELP, add_completion=True)


def _show_version(wants_version: bool) -> None:
    if wants_version:
        from ascend_session import __version__

        typer.echo(f"ascend-session {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    show_help_without_command(context)


def main() -> None:
    """Run the program with the arguments of this process; the console script.

    Raises:
        SystemExit: Always. 0 is success, 2 a wrong call, 1 means that what was asked about is
            not in order.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None if it was closed by the caller
            # A file name or value that the terminal cannot show is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="ascend-session")
    except OSError as failure:
        if failure.filename is not None:
            raise
        # No file of that name, so it was a stream: a disk that is full.
        complain(f"The output could not be written: {failure.strerror}.", severity=ERROR)
        os._exit(1)  # Python would try to write it once more, and complain in its own way
    except SystemExit as end:
        if sys.argv[1:2] == ["launch"]:
            _leave_at_once(end)
        raise


def _show_usage_error(error: Any) -> None:
    """Print what is wrong with a call, below how it is made."""
    message = error.format_message()
    if hasattr(error, "possibilities"):  # which releases write in different ways
        near = did_you_mean(error.option_name, error.possibilities or ())
        unknown = f"No such option: {error.option_name}.{f' Did you mean {near}?' if near else ''}"
        command = "" if error.ctx is None else error.ctx.command_path
        message = explain_removal(command, error.option_name) or unknown
    if error.ctx is not None:  # an option without its value comes without
        typer.echo(error.ctx.get_usage(), err=True)
    program = "ascend-session" if error.ctx is None else error.ctx.command_path
    complain(message, f"See `{program} --help`.", ERROR)


def _leave_at_once(end: SystemExit) -> None:
    """End the process without taking apart what it has loaded, which takes longer than a rank."""
    for stream in (sys.stdout, sys.stderr):
        # The caller had closed it, it is closed by now, or nobody reads.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))

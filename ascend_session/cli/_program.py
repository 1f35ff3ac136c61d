"""The program with all commands; reports wrong calls, and ends the process."""

import contextlib
import importlib
import importlib.util
import os
import signal
import sys
from typing import Any, Callable, List, NoReturn, Optional, Tuple

import click
from click.exceptions import Exit

from ascend_session import __version__
from ascend_session.cli._output import complain
from ascend_session.cli._parameters import CommandGroup
from ascend_session.findings import ERROR

COMMANDS = {
    "options": "Look up the options of AscendConfig.",
    "devices": "Show the devices, their health, and the processes that use them.",
    "doctor": "Check whether this machine has what a job needs.",
    "launch": "Start a script on every device, as one job.",
    "run": "Run a script written for npu_bridge, unchanged.",
    "compare": "Find the first step at which two recorded trainings differ.",
    "explain": "Explain an error code, a log, or what became of an old job.",
    "ranktable": "Make, check, convert and show rank tables.",
    "config": "Check configuration files and the files that options point to.",
    "precision": "Choose how operators are implemented, in one file per network.",
    "aoe": "Tune operators or subgraphs with AOE, the vendor's tuner.",
    "audit": "Find options in scripts that have no effect, or not the expected one.",
    "guide": "Show the guides that come with the package.",
    "completion": "Print a script that completes commands and options in a shell.",
}
"""The commands in the order of the help, each with the first sentence of its own help."""

_HELP = """Train with TensorFlow on Ascend devices, or on a machine without one.

Examples:
    ascend-session doctor
    ascend-session launch -n 8 train.py
"""

# Packages that nothing but one command needs, so that an installation may do without them.
_LEAVES = {"aoe": "aoe", "audit": "audit", "run": "compat"}


class _Program(CommandGroup):
    """The commands, each loaded when it is called: `launch` is to be quick."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ascend_session.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def summarize(self, ctx: click.Context, name: str) -> str:
        return COMMANDS[name]  # without loading its module

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command, and print what is wrong with a call as every other error."""
        try:
            code = super().main(*args, **{**settings, "standalone_mode": False})
        except click.UsageError as error:
            _show_usage_error(error)
            code = error.exit_code
        except click.Abort:
            code = 128 + signal.SIGINT
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C that it does not answer itself ends the program in silence."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # for which click writes an empty line
            raise click.Abort() from None

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        leaf = _LEAVES.get(str(name))
        if leaf is not None and importlib.util.find_spec(f"ascend_session.{leaf}") is None:
            complain(
                f"`ascend-session {name}` needs the package ascend_session.{leaf}, which is not "
                "part of this installation.",
                "Install ascend_session with all of its packages.",
                ERROR,
            )
            raise Exit(2)
        return name, command, rest


app = _Program(
    name="ascend-session",
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_add_version: Callable[[Any], Any] = click.version_option(
    __version__, message="%(prog)s %(version)s", help="Print the version."
)
_add_version(app)


def run() -> NoReturn:
    """Run the command that the arguments of this process ask for."""
    try:
        app.main(prog_name="ascend-session")
    except OSError as failure:
        _end_by_failure(failure)
    except SystemExit as end:
        if sys.argv[1:2] == ["launch"]:
            _leave_at_once(end)
        raise
    raise AssertionError("click's main() always exits")


def _end_by_failure(failure: OSError) -> NoReturn:
    """Report an error of the operating system, and end the program."""
    with contextlib.suppress(OSError):
        if not isinstance(failure, BrokenPipeError):  # then nobody reads any more
            complain(*_describe_failure(failure), severity=ERROR)
    os._exit(1)  # Python would try to write it once more, and complain in its own way


def _describe_failure(failure: OSError) -> Tuple[str, Optional[str]]:
    """Say in a sentence what has failed, and where if nothing else tells."""
    if failure.filename is not None:
        return f"{os.fsdecode(failure.filename)}: {failure.strerror}.", None
    try:
        os.getcwd()
    except FileNotFoundError:
        return "The working directory has been removed.", "Change to another one."
    import traceback  # slow to import, for what is rare

    *_, (frame, line) = traceback.walk_tb(failure.__traceback__)
    if frame.f_code is click.echo.__code__:
        return f"The output could not be written: {failure.strerror}.", None
    place = f"{frame.f_code.co_filename}:{line}"
    return f"{failure.strerror or failure}.", f"The system refused a call at {place}."


def _show_usage_error(error: click.UsageError) -> None:
    """Print what is wrong with a call, below how it is made."""
    if error.ctx is not None:  # an option without its value comes without
        click.echo(error.ctx.get_usage(), err=True)
    program = "ascend-session" if error.ctx is None else error.ctx.command_path
    complain(error.format_message(), f"See `{program} --help`.", ERROR)


def _leave_at_once(end: SystemExit) -> None:
    """End the process without Python's slow cleanup of loaded modules."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # it is closed by now, or nobody reads
            stream.flush()
    os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))

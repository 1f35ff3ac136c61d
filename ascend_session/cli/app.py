"""The commands of ``ascend-session`` and how the program as a whole behaves."""

import importlib
import importlib.util
import io
import os
import sys
from typing import Any, Dict, List

import typer
from typer.core import TyperGroup
from typing_extensions import Annotated

from ascend_session.cli._groups import group, help_without_command
from ascend_session.cli._output import complain

__all__ = ["app", "run"]

# In the order of the help; each in the module of its name.
_COMMANDS = (
    *("options", "devices", "doctor", "launch", "run", "ranktable", "config", "precision"),
    *("aoe", "audit"),
)

# Packages that nothing but one command needs, so that an installation may do without them.
_LEAVES: Dict[Any, str] = {"aoe": "aoe", "audit": "audit", "run": "compat"}


class _Commands(TyperGroup):
    """The commands, each loaded when it is asked for: `launch` is to be quick."""

    def list_commands(self, ctx: Any) -> List[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"ascend_session.cli.{cmd_name}")
        made = getattr(module, "app", None)
        if made is None:
            made = group()
            made.command(cmd_name)(getattr(module, cmd_name))
        return typer.main.get_command(made)

    def resolve_command(self, ctx: Any, args: List[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        leaf = _LEAVES.get(name)
        if leaf is not None and importlib.util.find_spec(f"ascend_session.{leaf}") is None:
            complain(
                f"`ascend-session {name}` needs the package ascend_session.{leaf}, which is not "
                "part of this installation.",
                "Install ascend_session with all of its packages.",
            )
            raise typer.Exit(2)
        return name, command, rest


app = group(
    name="ascend-session", cls=_Commands, help="One with block around TensorFlow on Ascend."
)


def run() -> None:
    """Runs the program; see `ascend_session.cli.main`."""
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
        complain(f"What was asked for could not be written: {failure.strerror}.")
        os._exit(1)  # Python would try to write it once more, and complain in its own way


def _show_version(wanted: bool) -> None:
    if wanted:
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
    help_without_command(context)

"""The commands of ``ascend-session`` and how the program as a whole behaves."""

import io
import sys

import typer
from typing_extensions import Annotated

from ascend_session.cli import config, devices, options
from ascend_session.cli._groups import group, help_without_command

__all__ = ["app", "run"]

app = group(name="ascend-session", help="One with block around TensorFlow on Ascend.")
app.command("options")(options.options)
app.command("devices")(devices.devices)
app.add_typer(config.app, name="config")


def run() -> None:
    """Runs the program; see `ascend_session.cli.main`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None if it was closed by the caller
            # A file name or value that the terminal cannot show is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="ascend-session")


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

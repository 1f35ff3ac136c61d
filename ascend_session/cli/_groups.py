"""How every group of commands is set up: plain help and errors, help when no command is given."""

from typing import Any, List

import typer
from typer.core import TyperCommand

__all__ = ["ScriptCommand", "group", "help_without_command"]


class ScriptCommand(TyperCommand):
    """A command that starts a script; what follows the script's name belongs to it."""

    def collect_usage_pieces(self, ctx: Any) -> List[str]:
        """What stands behind the name of the command in its help."""
        return ["[OPTIONS]", "SCRIPT", "[ARGS]..."]  # releases of typer differ in how they say it


def group(**settings: Any) -> typer.Typer:
    """A group of commands; ``settings`` are those of ``typer.Typer``."""
    return typer.Typer(
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # brackets in sentences are brackets
        **settings,
    )


def help_without_command(context: typer.Context) -> None:
    """Prints the help of the group if no command follows its name."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())

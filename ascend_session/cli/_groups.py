"""How every group of commands is set up: plain help and errors, help when no command is given."""

from typing import Any

import typer

__all__ = ["group", "help_without_command"]


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

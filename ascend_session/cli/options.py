"""``ascend-session options``: the reference of every option, as a list or one in full."""

from typing import TYPE_CHECKING, Iterator, List, Optional, Sequence

import typer
from typing_extensions import Annotated

from ascend_session.cli._one_option import show_option
from ascend_session.cli._output import complain, draw, is_terminal, show_json, show_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ascend_session.config.option import Option

__all__ = ["options"]

_NAME_WIDTH, _VALUES_WIDTH = 38, 26  # with the longest scope within 80 columns


def options(
    names: Annotated[
        Optional[List[str]], typer.Argument(help="An option, or words to look for.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> None:
    """Print the reference of the options.

    The name of an option prints all about it: what it does, values, default, scope, rules, seed.
    Several names, or none, list options. Other words list the options that mention all of them.
    """
    found = _chosen(names or [])
    if as_json:
        from ascend_session.config.reference import to_dict

        show_json([to_dict(option) for option in found])
    elif len(found) == 1:
        show_option(found[0])
    elif found:
        _show_list(found)
    if not found:
        from ascend_session.config.reference import nothing_found

        problem = nothing_found(names or [])
        complain(problem.message, problem.hint)
        raise typer.Exit(1)


def _chosen(words: List[str]) -> "Sequence[Option]":
    from ascend_session.config.reference import all_options, find, search

    if not words:
        return all_options()
    named = [option for option in map(find, words) if option is not None]
    return named if len(named) == len(words) else search(words)


def _show_list(found: "Sequence[Option]") -> None:
    if is_terminal():
        draw(*_folded(found))
        return
    from ascend_session.config.reference import default_of, values_of

    headers = ("OPTION", "VALUES", "DEFAULT", "SCOPE", "WHAT IT DOES")
    rows = [
        (o.path, values_of(o).words, default_of(o) or "none", o.scope, _sentence(o)) for o in found
    ]
    show_table(headers, rows)


def _folded(found: "Sequence[Option]") -> Iterator["RenderableType"]:
    """Two or three lines for each option, under the names of its group and of its part."""
    from rich.padding import Padding
    from rich.text import Text

    from ascend_session.config.reference import SCOPES, default_of, group_of

    group, part = "", ""
    for option in found:
        if group_of(option) != group:
            group = group_of(option)
            yield Text(f"\n{group}", style="bold underline")
        if option.path.rpartition(".")[0] != part:
            part = option.path.rpartition(".")[0]
            if part:
                yield Text(f"  {part}", style="bold")
        indent = 4 if part else 2
        yield _headline(option, indent)
        words = default_of(option)
        default = f"Default: {words}." if words else "No default."
        yield Padding(f"{_sentence(option)} {default}", (0, 0, 0, indent + 2), expand=False)
    yield ""
    for scope in dict.fromkeys(option.scope for option in found):
        yield f"{scope}: {SCOPES[scope]}."
    yield "`ascend-session options NAME` tells all about one option."


def _headline(option: "Option", indent: int) -> "RenderableType":
    from rich.text import Text

    name = f"{'':{indent}}{option.name}"
    facts = f" {_short_values(option):<{_VALUES_WIDTH}} {option.scope}"
    return Text.assemble((f"{name:<{_NAME_WIDTH}}", "bold"), facts)


def _short_values(option: "Option") -> str:
    from ascend_session.config.reference import values_of

    values = values_of(option)
    if len(values.words) <= _VALUES_WIDTH:
        return values.words
    return f"one of {len(values.allowed)} values" if values.allowed else values.types


def _sentence(option: "Option") -> str:
    """What the option does, and whether it should still be used."""
    if option.dead:
        return f"{option.doc} Deprecated."
    if option.deprecated:
        use = f": use {option.use}" if option.use else ""
        return f"{option.doc} Deprecated{use}."
    return option.doc

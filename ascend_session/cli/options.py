"""``ascend-session options``: the reference of every option, as a list or one in full."""

from typing import TYPE_CHECKING, Iterator, Sequence, Tuple

import click

from ascend_session.cli._output import (
    draw,
    fail,
    is_terminal,
    show_facts,
    show_json,
    show_table,
    show_text,
)
from ascend_session.cli._parameters import OPTIONS, argument, command
from ascend_session.cli.explain import refuse_codes
from ascend_session.text import label_first

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ascend_session.config.option import Option

_NAME_WIDTH, _VALUES_WIDTH = 38, 26  # with the longest scope within 80 columns
_FIELDS = {"s": "s (text)", "i": "i (integer)", "b": "b (bool)"}
_WHEN = {"construction": "", "host": "On this host: ", "opening": "At opening: "}


@command("options")
@argument("names", "[NAMES]...")
@OPTIONS.flag("--json as_json", "Print one JSON array.")
def options(names: Tuple[str, ...], as_json: bool) -> None:
    """Look up the options of AscendConfig.

    One NAME prints everything about that option: values, default, scope, rules, manual pages.
    Several NAMES list these options, no NAME lists all. Any other words list the options that
    mention all of them.

    Examples:
        ascend-session options precision_mode_v2
        ascend-session options memory reuse
    """
    from ascend_session.config import reference

    chosen = _choose(names)
    if not chosen:
        refuse_codes(names, "not an option")
    if as_json:
        show_json([reference.to_dict(option) for option in chosen])
    elif len(chosen) == 1:
        (option,) = chosen
        click.echo(click.style(option.path, bold=True))
        show_text(f"{option.doc}\n")
        show_facts(list(_list_facts(option)))
    elif chosen:
        _show_list(chosen)
    if not chosen:
        problem = reference.nothing_found(names)
        fail(problem.message, problem.hint)


def _choose(words: Sequence[str]) -> "Sequence[Option]":
    from ascend_session.config.reference import all_options, find, search

    if not words:
        return all_options()
    named = [option for option in map(find, words) if option is not None]
    return named if len(named) == len(words) else search(words)


def _show_list(chosen: "Sequence[Option]") -> None:
    if is_terminal():
        draw(*_draw_list(chosen))
        return
    headers = ("OPTION", "VALUES", "SCOPE", "WHAT IT DOES")
    show_table(headers, [(o.path, _shorten_values(o), o.scope, _describe_all(o)) for o in chosen])


def _draw_list(chosen: "Sequence[Option]") -> Iterator["RenderableType"]:
    """Draw two or three lines for each option, under the names of its group and of its part."""
    from rich.padding import Padding
    from rich.text import Text

    from ascend_session.config.reference import (
        SCOPES,
        group_of,
    )

    group, part = "", ""
    for option in chosen:
        if group_of(option) != group:
            group = group_of(option)
            yield Text(f"\n{group}", style="bold underline")
        if option.path.rpartition(".")[0] != part:
            part = option.path.rpartition(".")[0]
            if part:
                yield Text(f"  {part}", style="bold")
        indent = 4 if part else 2
        words = _shorten_values(option)
        name = f"{'':{indent}}{option.name}"
        yield Text.assemble(
            (f"{name:<{_NAME_WIDTH}}", "bold"), f" {words:<{_VALUES_WIDTH}} {option.scope}"
        )
        text = f"{_describe(option)} {_describe_default(option)}"
        yield Padding(text, (0, 0, 0, indent + 2), expand=False)
    yield ""
    for scope in dict.fromkeys(option.scope for option in chosen):
        yield f"{scope}: {SCOPES[scope]}."
    yield "`ascend-session options NAME` shows everything about one option."


def _shorten_values(option: "Option") -> str:
    """Return the values, or how many or of which type they are, within `_VALUES_WIDTH`."""
    from ascend_session.config.reference import describe_types, describe_values

    words = describe_values(option.type)
    if len(words) <= _VALUES_WIDTH:
        return words
    allowed = option.type.allowed
    return f"one of {len(allowed)} values" if allowed else describe_types(option.type)


def _describe_all(option: "Option") -> str:
    """Return all that a line of the list says of the option, but for its short columns."""
    from ascend_session.config.reference import describe_values

    values = describe_values(option.type)
    sentences = [_describe(option), _describe_default(option)]
    if values != _shorten_values(option):
        sentences.append(f"Values: {values}.")
    return " ".join(sentences)


def _describe_default(option: "Option") -> str:
    from ascend_session.config.reference import default_of

    default = default_of(option)
    return f"Default: {default}." if default else "No default."


def _describe(option: "Option") -> str:
    """Return what the option does, and whether it should still be used."""
    if option.is_unread:
        return f"{option.doc} Deprecated."
    if option.deprecated:
        use = f": use {option.replacement}" if option.replacement else ""
        return f"{option.doc} Deprecated{use}."
    return option.doc


def _list_facts(option: "Option") -> Iterator[Tuple[str, str]]:
    """List a label and a text for each fact about an option."""
    from ascend_session.config import reference

    yield "Write", reference.in_python(option)
    in_file = reference.in_file(option)
    if in_file:
        yield "In a file", in_file
    meanings = reference.meanings_of(option)
    rest = [repr(value) for value in option.type.allowed if value not in meanings]
    values = [f"{value!r}: {meaning}" for value, meaning in meanings.items()]
    values += [", ".join(rest)] if rest else []
    yield from label_first("Values", values or [reference.describe_values(option.type)])
    if option.unit:
        yield "Unit", option.unit
    grammar = reference.describe_grammar(option.type)
    if grammar:
        yield "Form", grammar
    members = reference.members_of(option)
    yield from label_first("Members", (f"{name}: {text}" for name, text in members.items()))
    defaults = {"adapter": option.adapter, "NPURunConfig": option.run_config_default}
    texts = [f"{whose}: {value!r}" for whose, value in defaults.items() if value is not None]
    product = reference.product_default_of(option)
    texts += [] if product is None else [f"product, when nothing is sent: {product}"]
    yield from label_first("Default", texts or ["none"])
    scopes = [f"{option.scope}: {reference.SCOPES[option.scope]}"]
    scopes += [f"also sent at scope {scope!r}" for scope in option.other_scopes]
    if option.sticky:
        scopes.append("its value stays in the process after its session is closed")
    yield from label_first("Scope", scopes)
    if option.applies:
        yield "Applies to", option.applies
    if option.field:
        yield "Key", f"{option.key} in the NpuOptimizer entry, field {_FIELDS[option.field]}"
    if option.is_unread:
        yield "Deprecated", "yes, and it no longer has any effect"
    elif option.deprecated:
        yield "Deprecated", f"yes; use {option.replacement}" if option.replacement else "yes"
    elif option.replacement:
        yield "Newer", option.replacement
    yield "Group", reference.group_of(option)
    for label, (when, rule) in label_first("Rules", reference.rules_of(option)):
        yield label, f"{_WHEN[when]}{rule.sentence} [{rule.source}]"
    yield from label_first("Manual", reference.pages_of(option))

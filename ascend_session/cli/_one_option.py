"""How the reference draws one option in full: a label and a text for each fact."""

from typing import TYPE_CHECKING, Iterable, Iterator, List, Tuple, TypeVar

import typer

from ascend_session.cli._output import show_facts

if TYPE_CHECKING:
    from ascend_session.config.option import Option

__all__ = ["show_option"]

_Item = TypeVar("_Item")

_FIELDS = {"s": "s (text)", "i": "i (integer)", "b": "b (bool)"}
_WHEN = {"construction": "", "host": "On this host: ", "opening": "At opening: "}


def show_option(option: "Option") -> None:
    """Prints all that is known of ``option``."""
    typer.echo(f"{typer.style(option.path, bold=True)}\n{option.doc}\n")
    show_facts(list(_facts(option)))


def _facts(option: "Option") -> Iterator[Tuple[str, str]]:
    from ascend_session.config import reference

    yield "Write", reference.in_python(option)
    in_file = reference.in_file(option)
    if in_file:
        yield "In a file", in_file
    yield from _value_facts(option)
    yield from _default_facts(option)
    yield from _scope_facts(option)
    if option.field:
        yield "Key", f"{option.key} in the NpuOptimizer entry, field {_FIELDS[option.field]}"
    yield from _advice(option)
    yield "Group", reference.group_of(option)
    for label, (when, rule) in _labelled("Rules", reference.rules_of(option)):
        yield label, f"{_WHEN[when]}{rule.sentence} [{rule.source}]"
    yield from _labelled("Seeds", reference.documents_of(option))


def _labelled(label: str, items: Iterable[_Item]) -> List[Tuple[str, _Item]]:
    """Each item with a label, which stands before the first one only."""
    return [("" if number else label, item) for number, item in enumerate(items)]


def _value_facts(option: "Option") -> Iterator[Tuple[str, str]]:
    from ascend_session.config.reference import members_of, values_of

    values = values_of(option)
    yield "Values", values.words
    if option.unit:
        yield "Unit", option.unit
    if values.grammar:
        yield "Form", values.grammar
    members = [f"{name}: {meaning}" for name, meaning in members_of(option).items()]
    yield from _labelled("Members", members)


def _default_facts(option: "Option") -> Iterator[Tuple[str, str]]:
    from ascend_session.config.reference import product_default_of

    facts = [
        ("adapter", option.adapter),
        ("NPURunConfig", option.run_config_default),
    ]
    said = [f"{whose}: {value!r}" for whose, value in facts if value is not None]
    product = product_default_of(option)
    if product is not None:
        said.append(f"product, when nothing is sent: {product}")
    yield from _labelled("Default", said or ["none"])


def _scope_facts(option: "Option") -> Iterator[Tuple[str, str]]:
    from ascend_session.config.reference import SCOPES

    said = [f"{option.scope}: {SCOPES[option.scope]}"]
    said += [f"also sent at scope {scope!r}" for scope in option.also]
    if option.sticky:
        said.append("its value stays in the process after its session has gone")
    yield from _labelled("Scope", said)
    if option.applies:
        yield "Applies to", option.applies


def _advice(option: "Option") -> Iterator[Tuple[str, str]]:
    if option.dead:
        yield "Deprecated", "yes, and nothing reads it any more"
    elif option.deprecated:
        yield "Deprecated", f"yes; use {option.use}" if option.use else "yes"
    elif option.use:
        yield "Prefer", option.use

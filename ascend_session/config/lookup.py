"""Finding options in the reference: by name, by words, and what to say when there is none."""

from typing import Any, List, Optional, Sequence, Tuple

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.catalogue import references
from ascend_session.config.names import OBSOLETE, did_you_mean, unknown_name
from ascend_session.config.reference import OptionReference
from ascend_session.errors import Problem

__all__ = ["find", "nothing_found", "search"]


def find(name: str) -> Optional[OptionReference]:
    """The option that ``name`` names: its name, path or vendor key, in any case."""
    wanted = name.lower()
    for option in references():
        if wanted in (
            option.name.lower(),
            option.path.lower(),
            (option.key or option.name).lower(),
        ):
            return option
    return None


def search(words: Sequence[str]) -> List[OptionReference]:
    """The options that all ``words`` occur in, in any case, in the order of definition.

    Names, keys, sentences, values and groups are looked at; if nothing is there, also rules and
    products. A known name that is no option any more is not found: see `nothing_found`.
    """
    if any(word in OBSOLETE for word in words):
        return []
    wanted = [word.lower() for word in words]
    return _matching(wanted, _headlines) or _matching(wanted, _small_print)


def nothing_found(words: Sequence[str]) -> Problem:
    """What to say when `search` finds nothing."""
    for word in words:
        if word in OBSOLETE:
            return unknown_name(word, None, AscendConfig)
    asked = " ".join(words)
    known = [name for option in references() for name in (option.name, option.path, option.key)]
    guesses = [did_you_mean(word, [*filter(None, known), *OBSOLETE]) for word in words]
    near = next(filter(None, guesses), None)
    hint = f"Did you mean {near}?" if near else "`ascend-session options` lists all options."
    return Problem(asked, f"No option is named {asked!r}, and none mentions it.", hint)


def _matching(words: Sequence[str], texts: Any) -> List[OptionReference]:
    found = []
    for option in references():
        text = "\n".join(str(each) for each in texts(option)).lower()
        if all(word in text for word in words):
            found.append(option)
    return found


def _headlines(option: OptionReference) -> Tuple[Any, ...]:
    place = option.write[len("AscendConfig") :]
    return (place, option.path, option.key, option.doc, option.group, option.allowed)


def _small_print(option: OptionReference) -> Tuple[Any, ...]:
    rules = [rule.sentence for rule in option.rules]
    defaults = (option.adapter_default, option.product_default)
    return (*_headlines(option), *rules, *option.members, option.applies_to, option.use, *defaults)

"""Rules that follow from an option's own definition: deprecated, or read by nothing."""

from typing import Dict

from ascend_session.config.entry import Entry
from ascend_session.config.option import Option, options_by_key
from ascend_session.config.rules._rule import Findings, RuleBook, warning

__all__ = ["RULES"]

RULES = RuleBook()


@RULES.add(source="seed 000, options that will be deprecated; options.json")
def deprecated_options(entry: Entry) -> Findings:
    """Deprecated options are said, with what replaces them."""
    known = _known()
    for key in entry:
        option = known.get(key)
        if option is None or not option.deprecated:
            continue
        if option.dead:
            yield warning(option.path, f"{key} is deprecated and nothing reads it any more.")
        else:
            use = f"Use {option.use}." if option.use else None
            yield warning(option.path, f"{key} is deprecated by the vendor's manual.", use)


def _known() -> Dict[str, Option]:
    from ascend_session.config.options import AdapterOptions

    return options_by_key(AdapterOptions)

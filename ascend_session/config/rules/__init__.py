"""The rules, by theme: `RULES` between options, `HOST_RULES` between options and this host.

Each rule is one function that reads the flat entry and yields what it finds. What the adapter
aborts on, refuses or silently turns into something else is an error, unless the manual
allows the value: that, what has no effect, and what is deprecated are warnings.
"""

from typing import List

from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import accuracy, dynamic, execution, paths, variables
from ascend_session.config.rules.rule import (
    FlatOptions,
    Rule,
    RuleBook,
    RuleFindings,
    no_effect,
    warning,
)

__all__ = ["DEPRECATIONS", "HOST_RULES", "RULES"]

DEPRECATIONS = RuleBook()


@DEPRECATIONS.add(source="guides/facts/former.md#former-releases; manual, NPURunConfig Options")
def deprecated_options(entry: FlatOptions) -> RuleFindings:
    """Warn of deprecated options and name what replaces them."""
    known = options_by_key(AdapterOptions)
    for key in entry:
        option = known.get(key)
        if option is None or not option.deprecated:
            continue
        if option.dead:
            yield no_effect(
                f"{key} is deprecated and no longer has any effect.", option=option.path
            )
        else:
            use = f"Use {option.use}." if option.use else None
            yield warning(f"{key} is deprecated by the vendor's manual.", use, option=option.path)


RULES: List[Rule] = [*accuracy.RULES, *dynamic.RULES, *execution.RULES, *DEPRECATIONS]

HOST_RULES: List[Rule] = [*paths.RULES, *variables.RULES]

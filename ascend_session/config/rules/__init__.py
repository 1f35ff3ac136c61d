"""The rules, by theme: `RULES` between options, `HOST_RULES` between options and this host.

Each rule is one function that reads the flat entry and yields what it finds. What the adapter
aborts on, refuses or turns into something else without a word is an error, unless the manual
allows the value: that, what has no effect, and what is deprecated are warnings.
"""

from typing import List

from ascend_session.config.rules import (
    devices,
    dump,
    dynamic,
    estimator,
    files,
    paths,
    performance,
    precision,
    status,
    tuning,
    variables,
)
from ascend_session.config.rules._rule import Rule

__all__ = ["HOST_RULES", "RULES"]

RULES: List[Rule] = [
    rule
    for theme in (precision, dump, dynamic, performance, tuning, devices, estimator, status)
    for rule in theme.RULES
]

HOST_RULES: List[Rule] = [rule for theme in (paths, files, variables) for rule in theme.RULES]

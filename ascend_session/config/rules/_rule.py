"""What a rule is, and how its findings are made."""

from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.config.entry import Entry
from ascend_session.errors import Problem

__all__ = ["Finding", "Findings", "Rule", "RuleBook", "error", "warning"]


class Finding(NamedTuple):
    """One thing a rule found: a problem, and whether it refuses the configuration."""

    refuses: bool
    problem: Problem


Findings = Iterator[Finding]
Check = Callable[[Entry], Findings]


class Rule(NamedTuple):
    """One rule: what it checks, the keys it looks at, and where the fact stands."""

    check: Check
    keys: Tuple[str, ...]
    source: str

    @property
    def sentence(self) -> str:
        """The rule in one sentence, for the reference."""
        return (self.check.__doc__ or "").strip()


class RuleBook(List[Rule]):
    """The rules of one theme; use as ``@RULES.add("key", source="...")``."""

    def add(self, *keys: str, source: str) -> Callable[[Check], Check]:
        """Adds the decorated function as a rule about ``keys``; its first key leads reports."""

        def register(check: Check) -> Check:
            self.append(Rule(check, keys, source))
            return check

        return register


def error(option: str, message: str, hint: Optional[str] = None) -> Finding:
    """A finding that refuses the configuration."""
    return Finding(True, Problem(option, message, hint))


def warning(option: str, message: str, hint: Optional[str] = None) -> Finding:
    """A finding that is only said."""
    return Finding(False, Problem(option, message, hint))

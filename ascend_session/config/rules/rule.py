"""Rules: the record of one, the options that it sees, and its findings."""

import contextlib
import functools
from typing import (
    AbstractSet,
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

from ascend_session.config.ends import Ends
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.findings import ERROR, NO_EFFECT, WARNING, Finding
from ascend_session.spelling import option


class RefusedOptionError(Exception):
    """Raised when a rule reads an option of unknown value; the rule is skipped."""


class FlatOptions(Mapping[str, Any]):
    """Options by vendor key, as rules see them.

    An option with an invalid value still counts as present. Reading that value skips the rule.

    Args:
        values: The options with their values.
        refused: Keys that are present with an invalid or unknown value.
        unknown: Keys that may or may not be present.
        environ: The environment that host rules compare the options with.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        refused: AbstractSet[str] = frozenset(),
        unknown: AbstractSet[str] = frozenset(),
        environ: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._values = values
        self._refused = refused
        self._unknown = unknown
        self.environ: Mapping[str, str] = {} if environ is None else environ

    def __getitem__(self, key: str) -> Any:
        if key in self._refused or key in self._unknown:
            raise RefusedOptionError(key)
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        if key in self._unknown:
            raise RefusedOptionError(key)
        return key in self._values or key in self._refused

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._values, *self._refused]))

    def __len__(self) -> int:
        return len({*self._values, *self._refused})

    def text(self, key: str) -> str:
        """Return the placeholder of an option with its value, for messages."""
        if key in self._values:
            return option(key, self._values[key])
        return option(key, "...", write=str)

    def is_empty(self, key: str) -> bool:
        """Return whether an option is empty text, also if its type refuses that."""
        return key in self and self._values.get(key) == ""

    def is_on(self, key: str) -> bool:
        """Return whether a switch was set to True (unset switches are off in the adapter)."""
        return self.get(key) is True


RuleFindings = Iterator[Finding]
Check = Callable[[FlatOptions], RuleFindings]


class Rule(NamedTuple):
    """One rule: its function, the keys that it reads, and its source.

    Attributes:
        check: The function that yields findings.
        source: Where the fact is documented.
        keys: The options that it is about, of which the first is its own.
        ends: The components that end a run on a device for it; empty if none checks it.
    """

    check: Check
    source: str
    keys: Tuple[str, ...] = ()
    ends: Tuple[Ends, ...] = ()

    @property
    def sentence(self) -> str:
        """The rule in one sentence, for the reference."""
        return " ".join((self.check.__doc__ or "").split())

    def findings(self, entry: FlatOptions) -> List[Finding]:
        """Apply the rule; a finding that names no option is about the first key."""
        findings: List[Finding] = []
        with contextlib.suppress(RefusedOptionError):
            for finding in self.check(entry):
                option = finding.option or self.keys[0]
                findings.append(finding._replace(option=option, source=self.source))
        return findings


def source(text: str) -> Callable[[Check], Rule]:
    """Make a rule of the decorated function, with the source of the fact."""
    return lambda check: Rule(check, text)


class RuleBook(List[Rule]):
    """The rules of one theme; use as ``@RULES.add("key")`` above ``@source("...")``."""

    def add(self, *keys: str, ends: Tuple[Ends, ...] = ()) -> Callable[[Rule], Check]:
        """Add the decorated rule; it is about ``keys``, of which the first is its own.

        Raises:
            ValueError: If one of them is the key of no option.
        """
        unknown = [key for key in keys if key not in options_by_key(AdapterOptions)]
        if unknown:
            raise ValueError(
                f"a rule is about {', '.join(unknown)}, which no option has as its key"
            )

        def register(rule: Rule) -> Check:
            self.append(rule._replace(keys=keys, ends=ends))
            return rule.check

        return register


def apply_rules(rules: Iterable[Rule], entry: FlatOptions) -> List[Finding]:
    """Return the rules' findings about ``entry``."""
    return [finding for rule in rules for finding in rule.findings(entry)]


# Called with message, hint and, if it is not the rule's own, option=. An error refuses the
# configuration; `no_effect` is a warning about an option that does not do what it says.
error = functools.partial(Finding, ERROR)
warning = functools.partial(Finding, WARNING)
no_effect = functools.partial(Finding, WARNING, effect=NO_EFFECT)

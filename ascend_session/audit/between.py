"""Rules between options: the configuration's own, run on what a script may set together.

A run of the script passes some arms of its ``if`` statements. For each arm in which options are
set, the rules run on what is surely set there, and on that with what may be set besides.
What is found both times is certain; what is found once depends on the way the script takes.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ascend_session.audit.book import Book
from ascend_session.audit.finding import ERROR, INFO, WARNING, Place
from ascend_session.audit.objects import Branch, Entry, Setting, compatible, implied
from ascend_session.audit.options import judge, known_option
from ascend_session.config.checking import findings
from ascend_session.config.entry import Entry as Options
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import RULES, status
from ascend_session.config.rules._rule import Rule

__all__ = ["Found", "look_between", "rule_findings", "status_findings"]

_MOST_BRANCHES = 24


class Found(NamedTuple):
    """What a rule of the configuration says: the audit's rule, and about which key."""

    rule: str
    severity: str
    key: Optional[str]
    said: str
    hint: Optional[str]
    source: Any

    @property
    def identity(self) -> Tuple[Any, ...]:
        """The same for the same finding among other options, whose values it may name."""
        return self.source, self.key, self.rule


class _Scenario(NamedTuple):
    """Options that are set together."""

    values: Dict[str, Any]
    unreadable: Set[str]
    places: Dict[str, Place]


def look_between(entry: Entry, book: Book) -> None:
    """Adds what the rules say of the options of one entry."""
    settings = [each for each in entry.settings if _is_readable(each)]
    branches: List[Branch] = [entry.branch]
    branches += [b for b in dict.fromkeys(s.branch for s in settings) if b != entry.branch]
    for branch in branches[:_MOST_BRANCHES]:
        surely = [each for each in settings if implied(each.branch, branch)]
        maybe = _together(settings, branch)
        first = _scenario(surely)
        second = _scenario([each for each in maybe if each not in surely] + surely)
        one, two = _run(first), _run(second)
        for identity, found in {**two, **one}.items():
            both = identity in one and identity in two
            open_ended = entry.shared or entry.opaque
            places = second.places if identity in two else first.places
            place = _place_of(found, places, entry.place)
            certain = both and not open_ended
            book.add(found.rule, found.severity, place, found.said, found.hint, certain)


def _together(settings: List[Setting], branch: Branch) -> List[Setting]:
    """Those of ``settings`` that one run through ``branch`` may set, each joined to the others."""
    found = []
    for each in settings:
        if compatible(each.branch, branch):
            found.append(each)
            branch = tuple(dict.fromkeys((*branch, *each.branch)))
    return found


class Written(Options):
    """Options that a script writes: one whose value is not known is there all the same."""

    def __contains__(self, key: object) -> bool:
        return key in self._values or key in self._unreadable

    def said(self, key: str) -> str:
        return f"{key}=..." if key in self._unreadable else super().said(key)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._values, *self._unreadable])

    def __len__(self) -> int:
        return len(self._values) + len(self._unreadable)


def rule_findings(options: Options) -> List[Found]:
    """What the rules of the configuration say of options by key."""
    rules = [rule for rule in RULES if rule.check is not _STATUS]
    return [found for rule in rules for found in _of_rule(rule, options)]


def status_findings(key: str) -> List[Found]:
    """What the rules say of an option whatever its value: deprecated, or read by nothing."""
    options = Options({key: None})
    return [found for rule in status.RULES for found in _of_rule(rule, options)]


_STATUS = status.deprecated_options


def _of_rule(rule: Rule, options: Options) -> List[Found]:
    said: List[Found] = []
    for finding in findings([rule], options):
        problem = finding.problem
        name, severity = ("option-conflict", ERROR) if finding.refuses else _EFFECT
        key = _key_of(problem.option, rule.keys, options)
        if rule.check is _STATUS:
            option = options_by_key(AdapterOptions).get(key or "")
            name, severity = _UNREAD if option is not None and option.dead else _DEPRECATED
        said.append(Found(name, severity, key, problem.message, problem.hint, rule.check))
    return said


_EFFECT = ("option-without-effect", WARNING)
_UNREAD = ("unread-option", WARNING)
_DEPRECATED = ("deprecated-option", INFO)


def _key_of(option: str, keys: Sequence[str], options: Options) -> Optional[str]:
    """The key that a finding about ``option`` (a name, path or key) is shown at."""
    for each in options_by_key(AdapterOptions).values():
        if option in (each.key, each.name, each.path) and each.key in iter(options):
            return each.key
    return next((key for key in keys if key in iter(options)), None)


def _run(scenario: _Scenario) -> Dict[Tuple[Any, ...], Found]:
    found = rule_findings(Written(scenario.values, scenario.unreadable))
    return {each.identity: each for each in found}


def _scenario(settings: List[Setting]) -> _Scenario:
    values: Dict[str, Any] = {}
    unreadable: Set[str] = set()
    places: Dict[str, Place] = {}
    for each in settings:
        option = known_option(each.key)
        assert option is not None
        value = judge(option, each.value).value
        places[each.key] = each.place
        unreadable.discard(each.key)
        values.pop(each.key, None)
        if value is None:
            unreadable.add(each.key)
        else:
            values[each.key] = value
    return _Scenario(values, unreadable, places)


def _is_readable(setting: Setting) -> bool:
    option = known_option(setting.key)
    return option is not None and option.field == setting.field


def _place_of(found: Found, places: Dict[str, Place], otherwise: Place) -> Place:
    return places.get(found.key or "", otherwise)

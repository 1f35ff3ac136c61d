"""What the configuration's own definitions say of a script's options, alone and together.

A run of the script passes some arms of its ``if`` statements. For each arm in which options are
set, the rules run on what is surely set there, and on that with what may be set besides.
What is found both times is certain; what is found once depends on the way the script takes.
"""

from functools import lru_cache
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
)

from pydantic import BaseModel

from ascend_session.audit.finding import Book
from ascend_session.audit.objects import (
    Branch,
    Entry,
    EnvironmentText,
    Known,
    OneOf,
    Setting,
    compatible,
    implied,
)
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.checking import findings
from ascend_session.config.option import Option, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.parameter_map import unflatten
from ascend_session.config.reference import all_options, values_of
from ascend_session.config.rules import DEPRECATIONS, RULES
from ascend_session.config.rules.rule import FlatOptions as Options
from ascend_session.config.rules.rule import Rule
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, INFO, WARNING, Finding, Place

_TAKES = {"s": "bytes are", "i": "an int is", "b": "True or False is"}
_STRICT = ("dynamic_dims", "experimental_accelerate_train_mode", "input_shape", "profiling_options")
_PYTHON = {"s": (bytes,), "i": (int,), "b": (int, float)}


class Judged(NamedTuple):
    """What a value written into a protobuf field comes to.

    Attributes:
        value: The option's value; None if it is not known or wrong.
        wrong_type: What Python says of it, or None.
        variable: The environment variable that ends the script if it is not set, or None.
        problems: What the option's definition says against it.
        certain: Whether each value it may have is wrong.
    """

    value: Any = None
    wrong_type: Optional[str] = None
    variable: Optional[str] = None
    problems: Tuple[Finding, ...] = ()
    certain: bool = True


@lru_cache(maxsize=None)
def known_option(key: str) -> Optional[Option]:
    """The option behind a key of the entry; None if no adapter reads the key."""
    option = options_by_key(AscendConfig).get(key)
    return option if option is not None and option.field is not None else None


@lru_cache(maxsize=None)
def path_keys() -> FrozenSet[str]:
    """The keys and arguments that are paths."""
    return frozenset(
        each.key for each in all_options() if values_of(each).types.split(" or ")[0] == "path"
    )


def judge(option: Option, value: Any, old: bool = False) -> Judged:
    """Looks at what is assigned to the right field of ``option``.

    Args:
        option: The option.
        value: What the reader knows of the value.
        old: Whether the script is of Python 2, where text is bytes.
    """
    if isinstance(value, EnvironmentText):
        return Judged(variable=value.name)
    if isinstance(value, OneOf):
        each = [judge(option, one, old) for one in value.values]
        bad = [one for one in each if one.wrong_type or one.problems]
        return bad[0]._replace(value=None, certain=len(bad) == len(each)) if bad else Judged()
    if not isinstance(value, Known):
        return Judged()
    field, given = option.field or "", value.value
    if old and field == "s" and isinstance(given, str):
        given = given.encode()
    if not isinstance(given, _PYTHON[field]):
        kind = "None" if given is None else f"a value of type {type(given).__name__}"
        return Judged(wrong_type=f"{_TAKES[field]} needed, this is {kind}")
    problems = value_problems(option.key, _read_back(field, given))
    if problems and option.dead:
        return Judged()
    if problems:
        return Judged(problems=problems, certain=given not in (b"", -1) and _is_strict(option.key))
    return Judged(value=_read_back(field, given))


@lru_cache(maxsize=None)
def _is_strict(key: str) -> bool:
    """Whether the adapter or GE takes nothing but what the definition says.

    Of most texts with a grammar only its main form is documented, and blanks may pass.
    """
    free = {each.key for each in all_options() if values_of(each).grammar is not None}
    return key not in free or key in _STRICT


def _read_back(field: str, given: Any) -> Any:
    if field == "s":
        return given.decode(errors="replace")
    return bool(given) if field == "b" else int(given)


@lru_cache(maxsize=4096, typed=True)
def value_problems(key: str, value: Any) -> Tuple[Finding, ...]:
    """What the definition of a key says against a value."""
    try:
        unflatten(AdapterOptions, {key: value})
    except ConfigError as error:
        return error.problems
    return ()


def argument_problems(model: Type[BaseModel], values: Dict[str, Any]) -> Tuple[Finding, ...]:
    """What a class of options says against its arguments, each looked at alone."""
    try:
        model(**values)
    except ConfigError as error:
        return error.problems
    return ()


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

    def text(self, key: str) -> str:
        """Show the option with its value, if that can be read."""
        return f"{key}=..." if key in self._unreadable else super().text(key)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._values, *self._unreadable])

    def __len__(self) -> int:
        return len(self._values) + len(self._unreadable)


def rule_findings(options: Options) -> List[Found]:
    """What the rules of the configuration say of options by key."""
    rules = [rule for rule in RULES if rule not in DEPRECATIONS]
    return [found for rule in rules for found in _of_rule(rule, options)]


def status_findings(key: str) -> List[Found]:
    """What the rules say of an option whatever its value: deprecated, or read by nothing."""
    options = Options({key: None})
    return [found for rule in DEPRECATIONS for found in _of_rule(rule, options)]


def _of_rule(rule: Rule, options: Options) -> List[Found]:
    said: List[Found] = []
    for finding in findings([rule], options):
        name, severity = ("option-conflict", ERROR) if finding.severity == ERROR else _EFFECT
        key = _key_of(finding.option or "", rule.keys, options)
        if rule in DEPRECATIONS:
            option = options_by_key(AdapterOptions).get(key or "")
            name, severity = _UNREAD if option is not None and option.dead else _DEPRECATED
        said.append(Found(name, severity, key, finding.message, finding.hint, rule.check))
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

"""Read a result file of AOE.

AOE writes a file while it tunes: of a file that ends in the middle, the complete tasks are read,
and one error says where it ends. The same holds for any other damage, which is not repaired. The
one exception is the comma that is missing in the manual's own sample of sub-graphs.

Sources: the manual of AOE, tables of the operator and of the sub-graph tuning result file. The old
formats (one task as an array, operators below ``add_repo_operators``) are in the manual of CANN 6.2
and 6.3.
"""

import json
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from ascend_session.aoe.result_files import (
    FILE_NAMES,
    OPERATORS,
    OUTCOMES,
    SUBGRAPHS,
    ModelTime,
    ResultFile,
    Summary,
    Task,
    TunedItem,
    TunedWay,
    Tuning,
)
from ascend_session.errors import ResultError
from ascend_session.files import UnreadableError, read_regular_file
from ascend_session.findings import ERROR, Finding, TextPlaces
from ascend_session.jsonfile import JsonError, load_json, parse_json
from ascend_session.option_files.source_file import detect_foreign_encoding
from ascend_session.text import find_stray_byte, format_count, shorten

_WHAT = "a result file of AOE"
_MOST_BYTES = 100 << 20
_HINT = f"Name a file {FILE_NAMES}."
_SECONDS = "tuning_time(s)"
# A task in the top-level object, which the manual's sample of sub-graphs lacks
_TASK = re.compile(r'\s*,?\s*"(report_[^"\\\x00-\x1f]*)"\s*:\s*')
_BEGINNING_OF_TASK = re.compile(r',?\s*("[^"]*"?)?\s*')
_ENDING_VALUE = re.compile(r'[^\[\]{}",:]{0,11}')  # a number, a word or an escape
_MISSING_COMMA = re.compile(r'\](\s*\n\s*")')
_LONGEST_VALUE = 100  # characters of a value in a message
_LONGEST_LETTER = 4  # bytes
# The update_mode of the operators and sub-graphs below these keys
_MODES = {
    "add_repo_operators": "add",
    "update_repo_operators": "update",
    "add_repo_subgraphs": "add",
    "update_repo_subgraphs": "update",
}
# The keys of the time before, the time after, and the percentage
_OPERATOR_TIMES = (
    "performance_before_tune(us)",
    "performance_after_tune(us)",
    "performance_improvement",
)
_SUBGRAPH_TIMES = (
    "performance_before_tune(ms)",
    "performance_after_tune(ms)",
    "performance_improvement",
)
_MODEL_TIMES = (
    "model_baseline_performance(ms)",
    "model_result_performance(ms)",
    "model_performance_improvement",
)

# The keys of a summary's fields, in their order.
_COUNTS = (
    "repo_add_num",
    "repo_update_num",
    "repo_reserved_num",
    "repo_hit_num",
    "repo_unsatisfied_num",
    "total_num",
)

_Path = Tuple[Union[str, int], ...]
_Times = Tuple[Optional[float], Optional[float], Optional[float]]


class _DamageError(Exception):
    """The text cannot be read from the index ``at`` on."""

    def __init__(self, at: int, message: str, is_cut_off: bool = False) -> None:
        super().__init__(message)
        self.at = at
        self.is_cut_off = is_cut_off


class _ValueError(Exception):
    """A value of a task is not what AOE writes; ``path`` leads to it."""

    def __init__(self, path: _Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def read_file(path: str) -> ResultFile:
    """Read a result file.

    Raises:
        ResultError: If it cannot be read, is not a regular file, has more than 100 MiB, is empty,
            UTF-16 or compressed, or is damaged in or before its first task.
    """
    try:
        content = read_regular_file(path, _MOST_BYTES, _WHAT)
    except UnreadableError as error:
        raise ResultError(f"{path}: {error}.", hint=_HINT) from error
    return _parse_content(content, path)


def _parse_content(content: bytes, name: str) -> ResultFile:
    mark = detect_foreign_encoding(content)
    if mark is not None:
        raise ResultError(
            f"{name}:1:1: is {mark}, not UTF-8 text like AOE's.",
            hint="Name the file as AOE has written it.",
        )
    text = _MISSING_COMMA.sub(r"],\1", content.decode("utf-8-sig", "surrogateescape"))
    if not text.strip():
        raise ResultError(f"{name}:1:1: is empty.", hint="AOE fills it while it tunes.")
    tasks: List[Task] = []
    damage = None
    try:
        for task in _iterate_tasks(text):
            tasks.append(task)
    except _DamageError as error:
        place = TextPlaces(text).locate(error.at)
        if not tasks and not error.is_cut_off:
            raise ResultError(f"{name}:{place}: {error}", hint=_HINT) from None
        message = f"{error} Before it: {format_count(len(tasks), 'whole task')}."
        damage = Finding(ERROR, message, place=place)
    return ResultFile(name, tuple(tasks), damage)


def _iterate_tasks(text: str) -> Iterator[Task]:
    """Yield the tasks in the order of the file.

    Raises:
        _DamageError: At the first damage.
    """
    stray = find_stray_byte(text)
    if stray is not None and stray <= len(text) - _LONGEST_LETTER:
        try:
            yield from _iterate_tasks(text[:stray])
        except _DamageError as error:
            if not error.is_cut_off:
                raise
        raise _DamageError(stray, "This byte is not UTF-8 text.")
    places = TextPlaces(text)
    begin = end = len(text) - len(text.lstrip())
    is_object = text.startswith("{", begin)
    if text.startswith("[", begin):  # the format of an old release
        value, end = _decode(text, begin)
        yield _read_task("", value, places.locate(begin).line, text, begin)
    else:
        end += is_object
        match = _TASK.match(text, end)
        while match is not None:
            value, end = _decode(text, match.end())
            line = places.locate(match.start(1)).line
            yield _read_task(match[1], value, line, text, match.end())
            match = _TASK.match(text, end)
    rest = text[end:].strip()
    if rest != ("}" if is_object else ""):
        at = end + len(text[end:]) - len(text[end:].lstrip())
        if is_object and _BEGINNING_OF_TASK.fullmatch(rest):
            raise _cut_off(at)
        raise _DamageError(at, f"A task ('report_...') is needed here, not {shorten(rest)!r}.")


def _cut_off(at: int) -> _DamageError:
    return _DamageError(at, "The file is cut off here; the rest is missing.", True)


def _decode(text: str, at: int) -> Tuple[Any, int]:
    """Decode the value at an index; return it and the index of its end."""
    try:
        value, length, repeated = load_json(text[at:])
    except JsonError as error:
        place = at + error.at
        if error.is_cut_off or _ENDING_VALUE.fullmatch(text[place:].strip()):
            raise _cut_off(place) from None
        reason = f"{error.reason[0].upper()}{error.reason[1:]}."
        raise _DamageError(place, reason) from None
    for path, key in repeated:
        holder = f" in {shorten(path)}" if path else ""
        raise _DamageError(at, f"The key {key!r} occurs twice{holder}.")
    return value, at + length


def _read_task(key: str, value: Any, line: int, text: str, at: int) -> Task:
    """Read a task from its value, which begins at the index ``at`` of the text."""
    try:
        return _build_task(key, line, value)
    except _ValueError as error:
        raise _DamageError(_locate(text, at, error.path), str(error)) from None


def _locate(text: str, at: int, path: _Path) -> int:
    """Find the index of the value at a path below the value at ``at``."""
    try:
        node, _ = parse_json(text[at:])
    except JsonError:  # nested too deeply
        return at
    for step in path:
        if isinstance(step, int):
            node = node.value[step]
        else:
            members = (member.node for member in node.value if member.key == step)
            node = next(members, node)  # one that is missing has the place of its object
    return at + node.at


_PERCENTAGE = re.compile(r"-?[0-9]{1,300}(\.[0-9]+)?%")

# What a value should be, in words, and the check for it
_EXPECTED: Dict[str, Callable[[Any], bool]] = {
    "an object": lambda value: isinstance(value, dict),
    "an array": lambda value: isinstance(value, list),
    "text": lambda value: isinstance(value, str),
    # 1e15 is 30 years of microseconds, and the sum of a whole file stays finite.
    "a number from 0 to 1e15": lambda value: type(value) in (float, int) and 0 <= value <= 1e15,
    "a whole number that is not negative": lambda value: type(value) is int and value >= 0,
    "a percentage as text, as in '12.34%'": lambda value: (
        isinstance(value, str) and _PERCENTAGE.fullmatch(value) is not None
    ),
    "the name of a type, or an array of them": lambda value: all(
        isinstance(name, str) for name in (value if isinstance(value, list) else [value])
    ),
    "an array of names": lambda value: (
        isinstance(value, list) and all(isinstance(name, str) for name in value)
    ),
    f"one of {', '.join(OUTCOMES)}": lambda value: value in OUTCOMES,
}
_OBJECT, _ARRAY, _TEXT, _TIME, _COUNT, _PERCENT, _TYPES, _NAMES, _OUTCOME = _EXPECTED


def _build_task(key: str, line: int, items: Any) -> Task:
    """Read a task from its value.

    Raises:
        _ValueError: For a value that is not as expected.
    """
    _check(items, _ARRAY, (), "A task")
    name, seconds, interrupted = "", None, False
    tunings = []
    for number, item in enumerate(items):
        _check(item, _OBJECT, (number,), "An item of a task")
        for part in (OPERATORS, SUBGRAPHS):
            value = _get(item, part, (number,), _OBJECT)
            if value is not None:
                tunings.append(_read_tuning(part, value, (number, part)))
        basic = _get(item, "basic", (number,), _OBJECT)
        if basic is not None:
            path: _Path = (number, "basic")
            name = _get(basic, "tuning_name", path, _TEXT) or ""
            interrupted = _SECONDS not in basic
            seconds = _get_time(basic, _SECONDS, path)
    return Task(key, name, seconds, interrupted, line, tuple(tunings))


def _read_tuning(kind: str, value: Dict[str, Any], path: _Path) -> Tuning:
    outcome: Any = ""
    summary = model = None
    if kind == OPERATORS:
        outcome = value.get("opat_tuning_result")
        _check(outcome, _OUTCOME, (*path, "opat_tuning_result"))
    counts = _get(value, "repo_summary", path, _OBJECT)
    if counts:
        inner = (*path, "repo_summary")
        summary = Summary(*(_get(counts, key, inner, _COUNT) for key in _COUNTS))
    if any(name in value for name in _MODEL_TIMES):
        model = ModelTime(*_get_times(value, _MODEL_TIMES, path))
    return Tuning(
        kind,
        outcome,
        _read_modified(value, "repo_modified_operators", path, _read_operator),
        _read_modified(value, "repo_modified_subgraphs", path, _read_subgraph),
        summary,
        tuple(_get(value, "tuning_failed_operators", path, _NAMES) or ()),
        model,
    )


def _read_modified(
    holder: Dict[str, Any],
    key: str,
    path: _Path,
    read: Callable[[Dict[str, Any], _Path, str], TunedItem],
) -> Tuple[TunedItem, ...]:
    """Read the added and updated items: one list, or lists below keys such as `_MODES`."""
    value, path = holder.get(key) or [], (*path, key)
    lists: List[Tuple[str, Any, _Path]] = [("", value, path)]
    if isinstance(value, dict):
        lists = [(_MODES.get(word, str(word)), value[word], (*path, word)) for word in value]
    modified = []
    for mode, items, place in lists:
        _check(items, _ARRAY, place)
        for number, item in enumerate(items):
            _check(item, _OBJECT, (*place, number), "An item")
            modified.append(read(item, (*place, number), mode))
    return tuple(modified)


def _read_operator(value: Dict[str, Any], path: _Path, mode: str) -> TunedItem:
    name = _get(value, "op_name", path, _TEXT) or ""
    types = _get(value, "op_type", path, _TYPES) or ()
    types = (types,) if isinstance(types, str) else tuple(types)
    if mode and "tune_performance" not in value:  # the format of an old release
        times = _get_times(value, _OPERATOR_TIMES, path)
        return TunedItem(name, types, (TunedWay("", *times, mode),))
    ways = _get(value, "tune_performance", path, _OBJECT) or {}
    tuned = []
    for way, facts in ways.items():
        inner = (*path, "tune_performance", way)
        _check(facts, _OBJECT, inner)
        times = _get_times(facts, _OPERATOR_TIMES, inner)
        tuned.append(TunedWay(way, *times, _get(facts, "update_mode", inner, _TEXT) or ""))
    return TunedItem(name, types, tuple(tuned))


def _read_subgraph(value: Dict[str, Any], path: _Path, mode: str) -> TunedItem:
    name = _get(value, "repo_key", path, _TEXT) or ""
    times = _get_times(value, _SUBGRAPH_TIMES, path)
    return TunedItem(name, (), (TunedWay("", *times, mode),))


def _get_times(holder: Dict[str, Any], keys: Tuple[str, str, str], path: _Path) -> _Times:
    """Read two times and a percentage."""
    before, after = (_get_time(holder, key, path) for key in keys[:2])
    text = _get(holder, keys[2], path, _PERCENT)
    return before, after, None if text is None else float(text[:-1])


def _get_time(holder: Dict[str, Any], key: str, path: _Path) -> Optional[float]:
    value = _get(holder, key, path, _TIME)
    return None if value is None else float(value)


def _get(holder: Dict[str, Any], key: str, path: _Path, expected: str) -> Any:
    """Return a member of an object, which has to be as expected; None if it is missing or null."""
    value = holder.get(key)
    if value is not None:
        _check(value, expected, (*path, key))
    return value


def _check(value: Any, expected: str, path: _Path, name: str = "") -> None:
    if not _EXPECTED[expected](value):
        message = f"{name or path[-1]} is {_describe(value)}; it should be {expected}."
        raise _ValueError(path, message)


def _describe(value: Any) -> str:
    """Describe a value in a sentence, shortened and without terminal codes."""
    if isinstance(value, (dict, list)):
        return "an array" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        return repr(shorten(value, _LONGEST_VALUE))
    return "missing or null" if value is None else json.dumps(value)

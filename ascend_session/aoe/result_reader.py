"""Read a result file of AOE.

AOE writes a file while it tunes, so a killed run leaves half a file. Of a damaged file the complete
tasks are read, and one error is reported. A value that is impossible or contradictory is reported
as a doubt, with its place, and read as None.

Sources: the manual of AOE, tables of the operator and of the sub-graph tuning result file. The old
formats (one task as an array, operators below ``add_repo_operators``) are in the manual of CANN 6.2
and 6.3.
"""

import contextlib
import json
import re
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

from ascend_session.aoe.result_files import (
    FAILED,
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
    compute_improvement,
)
from ascend_session.errors import ResultError
from ascend_session.files import UnreadableError, read_regular_file
from ascend_session.findings import ERROR, WARNING, Finding, TextPlaces
from ascend_session.option_files.source_file import detect_foreign_encoding
from ascend_session.text import format_count

_WHAT = "a result file of AOE"
_MOST_BYTES = 100 << 20
_HINT = f"Name a file {FILE_NAMES}."
_PREFIX = "report_"
_NO_OBJECT = "Expecting an object"
_SECONDS = "tuning_time(s)"
_FAILED_OPERATORS = "tuning_failed_operators"
_TASK_KEY = re.compile(rf'"({_PREFIX}[^"\\\x00-\x1f]*)"[ \t\r\n]*:[ \t\r\n]*')
_BLANKS = re.compile(r"[ \t\r\n]*")
_MOST_DOUBTS = 1000
_LONGEST_VALUE = 100  # characters of a value in a message
_MOST_DIGITS = 300  # of an int; Python 3.11 refuses to convert thousands of digits
_TOLERANCE = 0.01 + 1e-9  # AOE rounds some percentages to two digits and truncates others
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


def read_file(path: str) -> ResultFile:
    """Read a result file.

    Raises:
        ResultError: If it cannot be read, is not a regular file, has more than 100 MiB, is empty,
            UTF-16 or compressed, or contains not even the beginning of a task.
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
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        raise ResultError(f"{name}:1:1: is empty.", hint="AOE fills it while it tunes.")
    reader = _FileReader(text)
    reader.read()
    error = reader.error
    if not reader.tasks and not _TASK_KEY.search(text):
        if error is None and reader.doubts:
            raise ResultError(
                f"{name}:1:1: is JSON without any task ('{_PREFIX}...'), not a result file of AOE.",
                hint=_HINT,
            )
        if error is not None and not (_is_cut_off(error) and text.lstrip()[0] in "{["):
            place = reader.places.locate(error.pos)
            raise ResultError(f"{name}:{place}: {_explain(error)}", hint=_HINT)
    damage = reader.find_damage(content)
    doubts = reader.doubts[:_MOST_DOUBTS]
    if len(reader.doubts) > _MOST_DOUBTS:
        left_out = len(reader.doubts) - _MOST_DOUBTS
        doubts.append(doubts[-1]._replace(message=f"{left_out:,} more doubts are left out here."))
    return ResultFile(name, tuple(reader.tasks), damage, tuple(doubts))


class _FileReader:
    """Reads the JSON text of a result file, one task at a time.

    Attributes:
        places: Converts an index of the text to line and column.
        error: The first JSON error of the text; None if there is none.
        doubts: Values that are impossible or contradictory.
        tasks: The complete tasks.
    """

    def __init__(self, text: str) -> None:
        self.places = TextPlaces(text)
        self.error: Optional[json.JSONDecodeError] = None
        self.doubts: List[Finding] = []
        self.tasks: List[Task] = []
        self._text = text
        self._repeated_keys: List[str] = []
        self._decoder = json.JSONDecoder(object_pairs_hook=self._build, parse_int=_parse_whole)

    def read(self) -> None:
        """Read the tasks, also those after a damaged place."""
        begin = self._skip_blanks(0)
        try:
            if self._text[begin] == "[":  # the format of an old release
                end = self._read_task("", begin, begin)
            else:
                end = self._walk(begin, self._read_member)
            if self._skip_blanks(end) < len(self._text):
                raise json.JSONDecodeError("Expecting the end of the file", self._text, end)
        except json.JSONDecodeError as error:
            self.error = error
            match = _TASK_KEY.search(self._text, error.pos)
            while match is not None:
                end = match.end()
                with contextlib.suppress(json.JSONDecodeError):
                    end = self._read_task(match[1], match.start(), end)
                match = _TASK_KEY.search(self._text, end)

    def find_damage(self, content: bytes) -> Optional[Finding]:
        """Return the error of a damaged file, which is not JSON or not UTF-8; else None."""
        if self.error is not None:
            tasks = format_count(len(self.tasks), "whole task")
            rest = f"{tasks} can be read; the rest is lost."
            if _is_cut_off(self.error):
                rest = f"Before it: {tasks}."
            place = self.places.locate(self.error.pos)
            return Finding(ERROR, f"{_explain(self.error)} {rest}", place=place)
        try:
            content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            at = len(content[: error.start].decode("utf-8-sig"))
            message = "This byte is not UTF-8 text; a replacement character is shown for it."
            return Finding(ERROR, message, place=self.places.locate(at))
        return None

    def _read_member(self, key: Union[str, int], at: int, value_at: int) -> int:
        """Read a member of the top-level object, which should be a task; return its end."""
        if not str(key).startswith(_PREFIX):
            self._doubt(at, f"{_describe(key)} is no task ('{_PREFIX}...').")
            return self._decode(value_at)[1]
        if any(task.key == key for task in self.tasks):
            self._doubt(at, f"The key {_describe(key)} occurs here again; both tasks are counted.")
        return self._read_task(str(key), at, value_at)

    def _read_task(self, key: str, at: int, value_at: int) -> int:
        """Read a task, given the indices of its key and its value; return the index of its end."""
        self._repeated_keys = []
        value, end = self._decode(value_at)
        reader = _TaskReader()
        task = reader.read(key, self.places.locate(at).line, value)
        if task is not None and (key or task.name or task.tunings):
            self.tasks.append(task)
        for repeated in dict.fromkeys(self._repeated_keys):
            message = f"The key {_describe(repeated)} occurs twice in one object; "
            self._doubt(value_at, f"{message}only the last counts.")
        if reader.doubts:
            places = self._locate(value_at, [path for path, _ in reader.doubts])
            pairs = zip(places, (message for _, message in reader.doubts))
            for place, message in sorted(pairs, key=lambda pair: pair[0]):
                self._doubt(place, message)
        return end

    def _doubt(self, at: int, message: str) -> None:
        # Doubts after the limit are only counted, so they need no place.
        place = self.places.locate(at) if len(self.doubts) <= _MOST_DOUBTS else None
        self.doubts.append(Finding(WARNING, message, place=place))

    def _skip_blanks(self, at: int) -> int:
        match = _BLANKS.match(self._text, at)
        return at if match is None else match.end()

    def _decode(self, at: int) -> Tuple[Any, int]:
        """Decode the value at an index; return it and the index of its end.

        Raises:
            json.JSONDecodeError: If there is no JSON value.
        """
        try:
            return self._decoder.raw_decode(self._text, at)
        except RecursionError:
            raise json.JSONDecodeError("Nested too deeply", self._text, at) from None

    def _build(self, pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self._repeated_keys += [key for key, count in counts.items() if count > 1]
        return value

    def _walk(self, at: int, visit: Callable[[Union[str, int], int, int], int]) -> int:
        """Visit each member of the object or array at an index; return the index of its end.

        Args:
            at: The index of the opening bracket.
            visit: Takes the key or number of a member, its index and that of its value, and returns
                the index of the value's end.

        Raises:
            json.JSONDecodeError: If there is neither an object nor an array.
        """
        text = self._text
        is_object = text[at : at + 1] == "{"
        if not is_object and text[at : at + 1] != "[":
            raise json.JSONDecodeError(_NO_OBJECT, text, at)
        closing, number = "}" if is_object else "]", 0
        at = self._skip_blanks(at + 1)
        while text[at : at + 1] != closing:
            key: Union[str, int] = number
            value_at = at
            if is_object:
                if text[at : at + 1] != '"':
                    raise json.JSONDecodeError("Expecting a key in double quotes", text, at)
                key, colon = self._decode(at)
                colon = self._skip_blanks(colon)
                if text[colon : colon + 1] != ":":
                    raise json.JSONDecodeError("Expecting ':' delimiter", text, colon)
                value_at = self._skip_blanks(colon + 1)
            at = self._skip_blanks(visit(key, at, value_at))
            number += 1
            if text[at : at + 1] == ",":
                at = self._skip_blanks(at + 1)
            elif text[at : at + 1] != closing:
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        return at + 1

    def _locate(self, at: int, paths: Sequence[_Path]) -> List[int]:
        """Find the index of the value at each path, or of the object in which it is missing."""
        holders: Set[_Path] = {path[:length] for path in paths for length in range(len(path))}
        places: Dict[_Path, int] = {}

        def locate(path: _Path, at: int) -> int:
            places[path] = at
            if path not in holders or self._text[at] not in "{[":
                return self._decode(at)[1]
            return self._walk(at, lambda key, _, value_at: locate((*path, key), value_at))

        locate((), at)
        # A missing member has the place of its object.
        ends = (range(len(path), -1, -1) for path in paths)
        return [
            next(places[path[:end]] for end in lengths if path[:end] in places)
            for path, lengths in zip(paths, ends)
        ]


def _is_cut_off(error: json.JSONDecodeError) -> bool:
    """Return whether the text ends within a string, number or word, or between values."""
    if error.msg == _NO_OBJECT:
        return False
    rest = error.doc[error.pos :].strip()
    return error.msg.startswith("Unterminated") or not re.search(r'[\[\]{}",:]|.{12}', rest)


def _explain(error: json.JSONDecodeError) -> str:
    if _is_cut_off(error):
        return "The file ends here, in the middle, and the rest is missing."
    expected = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return f"This is not JSON: {expected}, not {error.doc[error.pos : error.pos + 20]!r}."


def _parse_whole(digits: str) -> Union[int, float]:
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


def _describe(value: Any) -> str:
    """Describe a value in a sentence, shortened and without terminal codes."""
    if isinstance(value, (dict, list)):
        return "an array" if isinstance(value, list) else "an object"
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[:_LONGEST_VALUE]}..."
    return repr(text) if isinstance(value, str) else text


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
}
_OBJECT, _ARRAY, _TEXT, _TIME, _COUNT, _PERCENT, _TYPES = _EXPECTED


class _TaskReader:
    """Turns the JSON value of a task into objects, and collects doubts.

    Attributes:
        doubts: ``(path of a value within the task, what is wrong with it)``.
    """

    def __init__(self) -> None:
        self.doubts: List[Tuple[_Path, str]] = []

    def read(self, key: str, line: int, items: Any) -> Optional[Task]:
        """Read a task from its value; None if that is not an array."""
        if not self._fits(items, _ARRAY, (), _describe(key)):
            return None
        name, seconds, interrupted = "", None, False
        tunings = []
        for number, item in enumerate(items):
            if not self._fits(item, _OBJECT, (number,), "An item of a task"):
                continue
            for part, value in item.items():
                path = (number, part)
                if part not in ("basic", OPERATORS, SUBGRAPHS):
                    self.doubts.append((path, f"{_describe(part)} is not part of a task."))
                elif not self._fits(value, _OBJECT, path):
                    continue
                elif part != "basic":
                    tunings.append(self._read_tuning(part, value, path))
                else:
                    name = self._get(value, "tuning_name", path, _TEXT) or ""
                    interrupted = _SECONDS not in value
                    if not interrupted:
                        seconds = self._get_time(value, _SECONDS, path)
        return Task(key, name, seconds, interrupted, line, tuple(tunings))

    def _read_tuning(self, kind: str, value: Dict[str, Any], path: _Path) -> Tuning:
        operators = self._read_modified(value, "repo_modified_operators", path, self._read_operator)
        subgraphs = self._read_modified(value, "repo_modified_subgraphs", path, self._read_subgraph)
        outcome, summary, model = "", None, None
        failed: Tuple[str, ...] = ()
        if "opat_tuning_result" in value:
            outcome = self._get(value, "opat_tuning_result", path, _TEXT) or ""
        counts = "repo_summary" in value and self._get(value, "repo_summary", path, _OBJECT)
        if counts:
            inner = (*path, "repo_summary")
            summary = Summary(*(self._get(counts, key, inner, _COUNT) for key in _COUNTS))
        if _FAILED_OPERATORS in value:
            failed = self._read_failed(value, path)
        if any(name in value for name in _MODEL_TIMES):
            model = ModelTime(*self._get_times(value, _MODEL_TIMES, path, "the model"))
        tuning = Tuning(kind, outcome, operators, subgraphs, summary, failed, model)
        self.doubts += [
            ((*path, *inner), message) for inner, message in _find_contradictions(tuning)
        ]
        return tuning

    def _read_modified(
        self,
        holder: Dict[str, Any],
        key: str,
        path: _Path,
        read: Callable[[Dict[str, Any], _Path, str], TunedItem],
    ) -> Tuple[TunedItem, ...]:
        """Read the added and updated items: one list, or lists below keys such as `_MODES`."""
        value, path = holder.get(key, []), (*path, key)
        lists: List[Tuple[str, Any, _Path]] = [("", value, path)]
        if isinstance(value, dict):
            lists = [(_MODES.get(word, str(word)), value[word], (*path, word)) for word in value]
        modified = []
        for mode, items, place in lists:
            if self._fits(items, _ARRAY, place):
                for number, item in enumerate(items):
                    if self._fits(item, _OBJECT, (*place, number), "An item"):
                        modified.append(read(item, (*place, number), mode))
        return tuple(modified)

    def _read_operator(self, value: Dict[str, Any], path: _Path, mode: str) -> TunedItem:
        name = self._get(value, "op_name", path, _TEXT) or ""
        types = self._get(value, "op_type", path, _TYPES) or ()
        types = (types,) if isinstance(types, str) else tuple(types)
        if mode and "tune_performance" not in value:  # the format of an old release
            times = self._get_times(value, _OPERATOR_TIMES, path, _describe(name))
            return TunedItem(name, types, (TunedWay("", *times, mode),))
        ways = self._get(value, "tune_performance", path, _OBJECT) or {}
        path = (*path, "tune_performance")
        tuned = [self._read_way(way, ways[way], (*path, way), name) for way in ways]
        return TunedItem(name, types, tuple(tuned))

    def _read_way(self, way: str, value: Any, path: _Path, name: str) -> TunedWay:
        if not self._fits(value, _OBJECT, path):
            return TunedWay(way, None, None, None, "")
        times = self._get_times(value, _OPERATOR_TIMES, path, _describe(name))
        return TunedWay(way, *times, self._get(value, "update_mode", path, _TEXT) or "")

    def _read_subgraph(self, value: Dict[str, Any], path: _Path, mode: str) -> TunedItem:
        name = self._get(value, "repo_key", path, _TEXT) or ""
        times = self._get_times(value, _SUBGRAPH_TIMES, path, _describe(name))
        return TunedItem(name, (), (TunedWay("", *times, mode),))

    def _read_failed(self, holder: Dict[str, Any], path: _Path) -> Tuple[str, ...]:
        """Read the names of the operators that could not be tuned."""
        names = self._get(holder, _FAILED_OPERATORS, path, _ARRAY) or []
        others = [number for number, name in enumerate(names) if not isinstance(name, str)]
        if others:
            message = f"{len(others):,} items of {_FAILED_OPERATORS} are not names of operators."
            if len(others) == 1:
                item = _describe(names[others[0]])
                message = f"{item} in {_FAILED_OPERATORS} is not the name of an operator."
            self.doubts.append(((*path, _FAILED_OPERATORS, others[0]), message))
        return tuple(name for name in names if isinstance(name, str))

    def _get_times(
        self, holder: Dict[str, Any], keys: Tuple[str, str, str], path: _Path, what: str
    ) -> _Times:
        """Read two times and a percentage, which has to agree with the times."""
        before = self._get_time(holder, keys[0], path)
        after = self._get_time(holder, keys[1], path)
        text = self._get(holder, keys[2], path, _PERCENT)
        if text is None:
            return before, after, None
        reported, actual = float(text[:-1]), compute_improvement(before, after)
        if actual is not None and not abs(reported - actual) <= _TOLERANCE:
            message = (
                f"{keys[2]} of {what} is {reported:g} %, and {before:g} before and {after:g} after "
                f"make {actual:.2f} %."
            )
            self.doubts.append(((*path, keys[2]), message))
        return before, after, reported

    def _get_time(self, holder: Dict[str, Any], key: str, path: _Path) -> Optional[float]:
        value = self._get(holder, key, path, _TIME)
        return None if value is None else float(value)

    def _get(self, holder: Dict[str, Any], key: str, path: _Path, expected: str) -> Any:
        """Return a member of an object; add a doubt and return None if it is not as expected."""
        value = holder.get(key)
        return value if self._fits(value, expected, (*path, key)) else None

    def _fits(self, value: Any, expected: str, path: _Path, name: str = "") -> bool:
        """Return whether a value is as expected, and add a doubt if it is not."""
        if _EXPECTED[expected](value):
            return True
        state = "missing or null" if value is None else _describe(value)
        self.doubts.append((path, f"{name or path[-1]} is {state}; it should be {expected}."))
        return False


def _find_contradictions(tuning: Tuning) -> Iterator[Tuple[_Path, str]]:
    """Yield the path of each number that does not add up, and a sentence about it.

    By the manual's descriptions, a policy is either added, updated, reserved or unsatisfied, and
    the hits are those that are updated or reserved. A violation need not be an error: in the
    manual's own sample of sub-graphs the first sum differs by one.
    """
    outcome, summary = tuning.outcome, tuning.summary
    if tuning.kind == OPERATORS and outcome not in OUTCOMES:
        state = f"is {_describe(outcome)}," if outcome else "says"
        yield ("opat_tuning_result",), f"opat_tuning_result {state} none of {', '.join(OUTCOMES)}."
    elif tuning.kind == OPERATORS and tuning.failed and outcome != FAILED:
        count = format_count(len(tuning.failed), "operator")
        message = f"{_FAILED_OPERATORS} names {count}, and opat_tuning_result says {outcome!r}."
        yield (_FAILED_OPERATORS,), message
    if summary is None:
        return
    added, updated, reserved, hit, unsatisfied, total = summary
    if None not in (added, updated, reserved, unsatisfied, total):
        parts = sum((added, updated, reserved, unsatisfied))  # type: ignore[arg-type]
        if parts != total:
            yield (
                ("repo_summary", "total_num"),
                f"total_num is {total}, and added ({added}), updated ({updated}), reserved "
                f"({reserved}) and unsatisfied ({unsatisfied}) make {parts}.",
            )
    if updated is not None and reserved is not None and hit not in (None, updated + reserved):
        yield (
            ("repo_summary", "repo_hit_num"),
            f"repo_hit_num is {hit}, and updated ({updated}) and reserved ({reserved}), which were "
            f"in the repository before, make {updated + reserved}.",
        )
    # An operator may be counted once for all its ways.
    items = tuning.operators + tuning.subgraphs
    once = Counter(mode for item in items for mode in item.update_modes)
    each = Counter(way.update_mode for item in items for way in item.tuned)
    for mode, key, number in (
        ("add", "repo_add_num", added),
        ("update", "repo_update_num", updated),
    ):
        if number is not None and number not in (once[mode], each[mode]):
            message = f"{key} is {number}, and {each[mode]} with update mode {mode!r} are listed."
            yield ("repo_summary", key), message

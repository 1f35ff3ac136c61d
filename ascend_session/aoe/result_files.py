"""The result files of AOE: where they are, what stands in them, and how they are read.

AOE writes a file while it tunes, so a run that was killed leaves half of one. Of a damaged file the
whole tasks are given, and one error. What is there and cannot be, or does not add up, is a doubt:
it is pointed out with its place, and the value is None.

Times of operators are in microseconds, those of sub-graphs and models in milliseconds.

Sources: the manual of AOE, tables of the operator and of the sub-graph tuning result file, and
"ASCEND_WORK_PATH > default path (tuning working directory)"; the manual of that variable, which
puts the files into its folder ``aoe_data``. The old forms (one task as an array, operators below
``add_repo_operators``) are those of the manual of CANN 6.2 and 6.3.
"""

import contextlib
import json
import math
import os
import re
from collections import Counter
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from ascend_session.errors import ResultError
from ascend_session.files import UnreadableError, read_regular_file
from ascend_session.findings import ERROR, WARNING, Finding, Place
from ascend_session.option_files.base import PathLike
from ascend_session.option_files.source import Kind, Places, decoded

OPERATORS, SUBGRAPHS = "OPAT", "SGAT"
SUCCESSFUL, FAILED, INCOMPLETE = "tuning successful", "tuning failed", "tune tuning incomplete"
OUTCOMES = (SUCCESSFUL, FAILED, INCOMPLETE)
FILE_NAMES = "aoe_result_opat_*.json or aoe_result_sgat_*.json"
WHERE_WRITTEN = (
    "AOE writes it where ASCEND_WORK_PATH says, else into the directory in which it tunes: "
    "work_path, WORK_PATH of aoe.ini, or where the training runs."
)
"""Where to look, as a hint."""

_NAME = re.compile(r"aoe_result_(?:opat|sgat)_(.+)\.json")
_OF_SUBGRAPHS = "aoe_result_sgat_"
_KIND = Kind("a result file of AOE", "the report", ResultError, most_bytes=100 << 20)
_HINT = f"Name a file {FILE_NAMES}."
_PREFIX = "report_"
_NO_OBJECT = "Expecting an object"
_SECONDS = "tuning_time(s)"
_FAILED_OPERATORS = "tuning_failed_operators"
_TASK_KEY = re.compile(rf'"({_PREFIX}[^"\\\x00-\x1f]*)"[ \t\r\n]*:[ \t\r\n]*')
_BLANKS = re.compile(r"[ \t\r\n]*")
_MOST_DOUBTS = 1000
_SHOWN = 100  # characters of a value in a message
_MOST_DIGITS = 300  # of a whole number; Python 3.11 refuses to convert very long ones
_TOLERANCE = 0.01 + 1e-9  # AOE rounds some percentages to two digits and cuts others off
# What became of those that stand below such a key, in the word of update_mode.
_MODES = {
    "add_repo_operators": "add",
    "update_repo_operators": "update",
    "add_repo_subgraphs": "add",
    "update_repo_subgraphs": "update",
}
# The names of a time before, a time after, and the percentage.
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

_Path = Tuple[Union[str, int], ...]
_Times = Tuple[Optional[float], Optional[float], Optional[float]]


def percent_faster(before: Optional[float], after: Optional[float]) -> Optional[float]:
    """Compute the improvement in percent as AOE counts it, which is ``before / after - 1``.

    The manual calls it the percentage by which the time is reduced, and prints 118.71 % for 58.781
    and 26.876 microseconds. None if a time is unknown, or nothing beside the other.
    """
    if before is None or not after:
        return None
    improvement = 100.0 * (before / after - 1.0)
    return improvement if math.isfinite(improvement) else None


class TunedWay(NamedTuple):
    """One way in which something was tuned.

    Attributes:
        way: ``Format``, ``Schedule`` or ``Impl``; empty for sub-graphs, and in old files.
        before: Its time before.
        after: Its time afterwards.
        improvement: The percentage that the file has for it.
        update_mode: What became of its tiling policy in the repository, as ``add``.
    """

    way: str
    before: Optional[float]
    after: Optional[float]
    improvement: Optional[float]
    update_mode: str


class TunedItem(NamedTuple):
    """An operator or a sub-graph of which a tiling policy was added or updated.

    Attributes:
        name: An operator's name in the graph, a sub-graph's key in the repository.
        types: An operator's type, or those of which it was fused; empty for a sub-graph.
        tuned: Each way in which it was tuned.
    """

    name: str
    types: Tuple[str, ...]
    tuned: Tuple[TunedWay, ...]

    @property
    def before(self) -> Optional[float]:
        """Its time before any tuning: the longest of all ways."""
        return max((one.before for one in self.tuned if one.before is not None), default=None)

    @property
    def after(self) -> Optional[float]:
        """Its time after all tuning: the shortest of all ways."""
        return min((one.after for one in self.tuned if one.after is not None), default=None)

    @property
    def saved(self) -> Optional[float]:
        """The time that it takes less, each time it runs."""
        before, after = self.before, self.after
        return None if before is None or after is None else before - after

    @property
    def improvement(self) -> Optional[float]:
        """The same in percent, counted as `percent_faster`."""
        return percent_faster(self.before, self.after)

    @property
    def ways(self) -> Tuple[str, ...]:
        """The ways in which it was tuned, as far as they have names."""
        return tuple(one.way for one in self.tuned if one.way)

    @property
    def update_modes(self) -> Tuple[str, ...]:
        """What became of its tiling policies, each word once."""
        return tuple(dict.fromkeys(one.update_mode for one in self.tuned))


class Summary(NamedTuple):
    """The number of tiling policies by what became of them.

    Attributes:
        added: Not in the repository before, and added.
        updated: In it before, and updated.
        reserved: In it before, and left as they were.
        hit: In it during the tuning.
        unsatisfied: Not in it before, and not written.
        total: All that were tuned.
    """

    added: Optional[int] = None
    updated: Optional[int] = None
    reserved: Optional[int] = None
    hit: Optional[int] = None
    unsatisfied: Optional[int] = None
    total: Optional[int] = None


_COUNTS = (
    "repo_add_num",
    "repo_update_num",
    "repo_reserved_num",
    "repo_hit_num",
    "repo_unsatisfied_num",
    "total_num",
)
"""The keys of a summary's fields, in their order."""


class ModelTime(NamedTuple):
    """How long the whole model takes, in milliseconds; ``reported`` is the file's percentage."""

    before: Optional[float]
    after: Optional[float]
    reported: Optional[float]


class Tuning(NamedTuple):
    """What was tuned in a task.

    Attributes:
        kind: `OPERATORS` or `SUBGRAPHS`.
        outcome: What the file says became of it, one of `OUTCOMES`; empty if it says nothing, as
            of sub-graphs.
        operators: The operators whose policies were added or updated.
        subgraphs: The sub-graphs of which that is true.
        summary: The counts; None if there are none.
        failed: The names of the operators that could not be tuned.
        model: The time of the model, where it was measured.
    """

    kind: str
    outcome: str
    operators: Tuple[TunedItem, ...]
    subgraphs: Tuple[TunedItem, ...]
    summary: Optional[Summary]
    failed: Tuple[str, ...]
    model: Optional[ModelTime]


class Task(NamedTuple):
    """A task of tuning.

    Attributes:
        key: Its key in the file, as ``report_20240101_120000123_4711``; empty in files of old
            releases, which hold one task.
        name: Its name.
        seconds: How long it took; None if that is not known.
        interrupted: Whether the file has no time for it, as after a core dump or out of memory.
        line: The line in which it begins.
        tunings: What was tuned; empty if there was nothing to tune, or the tuning of sub-graphs
            failed.
    """

    key: str
    name: str
    seconds: Optional[float]
    interrupted: bool
    line: int
    tunings: Tuple[Tuning, ...]


class ResultFile(NamedTuple):
    """A result file.

    Attributes:
        name: Its name, as it was given.
        tasks: The tasks that are whole, in the order of the file.
        damage: Why the rest could not be read, and where; None if all was.
        doubts: What is there and cannot be, or does not add up.
    """

    name: str
    tasks: Tuple[Task, ...]
    damage: Optional[Finding]
    doubts: Tuple[Finding, ...]

    def outcomes(self, task: Task) -> Tuple[str, ...]:
        """Return what became of each tuning of a task of this file, at least one.

        A task of sub-graphs without any tuning has failed, says the manual; one of operators had
        none that could be tuned.
        """
        if task.tunings:
            return tuple(tuning.outcome for tuning in task.tunings)
        return (FAILED if os.path.basename(self.name).startswith(_OF_SUBGRAPHS) else "",)

    @property
    def ok(self) -> bool:
        """Whether all of it was read and no tuning failed, is incomplete or was interrupted."""
        return self.damage is None and not any(
            task.interrupted or {FAILED, INCOMPLETE} & set(self.outcomes(task))
            for task in self.tasks
        )


def result_folders(environ: Mapping[str, str], folder: PathLike = ".") -> List[str]:
    """Return the folders in which AOE may have left its results, by priority.

    Args:
        environ: The environment of the training; of it ASCEND_WORK_PATH counts.
        folder: The working directory of the training.
    """
    work_path = environ.get("ASCEND_WORK_PATH", "")
    return [*([work_path] if work_path else []), os.fspath(folder)]


def find_results(environ: Optional[Mapping[str, str]] = None, folder: PathLike = ".") -> List[str]:
    """Return the result files of the first folder that has any, the oldest name first.

    Args:
        environ: As of `result_folders`; that of this process if None.
        folder: As of `result_folders`.

    Raises:
        ResultError: As of `files_in`; results of another folder are not given instead.
    """
    for place in result_folders(os.environ if environ is None else environ, folder):
        found = files_in(place)
        if found:
            return found
    return []


def files_in(folder: str) -> List[str]:
    """Return the result files in a folder and its ``aoe_data``, by time and process in their names.

    Raises:
        ResultError: If there is such a folder, and it cannot be read.
    """
    found = []
    for place in (folder, os.path.join(folder, "aoe_data")):
        try:
            names = os.listdir(place)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError as error:
            raise ResultError(
                f"{place}: this folder cannot be read: {error.strerror}.",
                hint="Whoever asks for the report must be able to read it.",
            ) from error
        matches = [(_NAME.fullmatch(name), name) for name in names]
        inside = "" if place == os.curdir else place
        found += [(match[1], os.path.join(inside, name)) for match, name in matches if match]
    return [path for _, path in sorted(found)]


def read_file(path: str) -> ResultFile:
    """Read a result file.

    Raises:
        ResultError: As `parse_result`, or if it cannot be read, is no file or has more than
            100 MiB. A pipe is refused and never waited for.
    """
    try:
        content = read_regular_file(path, _KIND.most_bytes, _KIND.what)
    except UnreadableError as error:
        raise ResultError(f"{path}: {error}.", hint=_HINT) from error
    return parse_result(content, path)


def parse_result(content: bytes, name: str = "<text>") -> ResultFile:
    """Read the content of a result file.

    Args:
        content: Its bytes.
        name: What messages call it.

    Raises:
        ResultError: If it is empty, is UTF-16 or compressed, or has no task and not even the
            beginning of one.
    """
    mark = decoded(name, content[:2]).mark
    if mark is not None:
        raise ResultError(
            f"{name}:1:1: is {mark}, not UTF-8 text; AOE writes {_KIND.what} as that.",
            hint="Name the file as AOE has written it.",
        )
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        raise ResultError(f"{name}:1:1: is empty.", hint="AOE fills it while it tunes.")
    document = _Document(text)
    tasks = document.read()
    error = document.error
    if not tasks and not _TASK_KEY.search(text) and (error or document.doubts):
        if error is None:
            raise ResultError(
                f"{name}:1:1: is JSON without any task ('{_PREFIX}...'), so no result file of AOE.",
                hint=_HINT,
            )
        if not _may_begin_tasks(text):
            line, column = document.places.of(error.pos)
            raise ResultError(f"{name}:{line}:{column}: {_message(error)}", hint=_HINT)
    return ResultFile(name, tuple(tasks), document.damage(content), document.doubts)


def _may_begin_tasks(text: str) -> bool:
    """Whether a text that is no JSON begins as a result file does."""
    start = "".join(text[:_SHOWN].split())
    return any(start.startswith(whole) or whole.startswith(start) for whole in ('{"report_', "[{"))


class _Document:
    """The JSON text of a result file.

    Attributes:
        places: Line and column of each character.
        error: The first place where the text is no JSON, if there is one.
        doubts: What cannot be, or does not add up; with `_MOST_DOUBTS` the rest is counted.
    """

    def __init__(self, text: str) -> None:
        self.places = Places(text)
        self.error: Optional[json.JSONDecodeError] = None
        self.doubts: Tuple[Finding, ...] = ()
        self._text = text
        self._tasks: List[Task] = []
        self._left_out = 0
        self._repeated: List[str] = []
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_int=_whole_number)

    def read(self) -> List[Task]:
        """Read the tasks, also those behind a place that is damaged."""
        begin = self._skip(0)
        try:
            if self._text[begin] == "[":
                end = self._add("", begin, begin)
            else:
                end = self._walk(begin, self._add_member)
            if self._skip(end) < len(self._text):
                raise json.JSONDecodeError("Expecting the end of the file", self._text, end)
        except json.JSONDecodeError as error:
            self.error = error
            self._read_on(error.pos)
        if self._left_out:
            last = self.doubts[-1]
            message = f"There is more to doubt, {self._left_out:,} times."
            self.doubts += (last._replace(message=message),)
        return self._tasks

    def _read_on(self, at: int) -> None:
        """Read those tasks behind a damaged place that are whole."""
        match = _TASK_KEY.search(self._text, at)
        while match is not None:
            at = match.end()
            with contextlib.suppress(json.JSONDecodeError):
                at = self._add(match[1], match.start(), at)
            match = _TASK_KEY.search(self._text, at)

    def _add_member(self, key: Union[str, int], at: int, value_at: int) -> int:
        """Add a member of the file, which should be a task; return where it ends."""
        if str(key).startswith(_PREFIX):
            if any(task.key == key for task in self._tasks):
                self._doubt(at, f"The key {_shown(key)} stands here again; both tasks are counted.")
            return self._add(str(key), at, value_at)
        end = self._decode(value_at)[1]
        self._doubt(at, f"{_shown(key)} is no task ('{_PREFIX}...').")
        return end

    def _add(self, key: str, at: int, value_at: int) -> int:
        """Add a task whose key stands at one place and whose value at another; return its end."""
        self._repeated = []
        value, end = self._decode(value_at)
        reader = _TaskReader()
        task = reader.read(key, self.places.of(at)[0], value)
        if task is not None and (key or task.name or task.tunings):
            self._tasks.append(task)
        for repeated in dict.fromkeys(self._repeated):
            said = f"The key {_shown(repeated)} stands twice in one object; only the last counts."
            self._doubt(value_at, said)
        if reader.doubts:
            places = self._locate(value_at, [path for path, _ in reader.doubts])
            for place, (_, message) in sorted(zip(places, reader.doubts), key=lambda one: one[0]):
                self._doubt(place, message)
        return end

    def _doubt(self, at: int, message: str) -> None:
        if len(self.doubts) < _MOST_DOUBTS:
            self.doubts += (Finding(WARNING, message, place=Place(*self.places.of(at))),)
        else:
            self._left_out += 1

    def damage(self, content: bytes) -> Optional[Finding]:
        """Return the one error of a damaged file: no JSON, or else no UTF-8."""
        if self.error is not None:
            tasks = f"{len(self._tasks)} whole task{'' if len(self._tasks) == 1 else 's'}"
            rest = f" {tasks} can be read; the rest is lost."
            if _is_end(self.error):
                rest = f" Before it: {tasks}."
            place = Place(*self.places.of(self.error.pos))
            return Finding(ERROR, _message(self.error) + rest, place=place)
        try:
            content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            at = len(content[: error.start].decode("utf-8-sig"))
            said = "This byte is not UTF-8 text; a sign stands for it in what follows."
            return Finding(ERROR, said, place=Place(*self.places.of(at)))
        return None

    def _skip(self, at: int) -> int:
        found = _BLANKS.match(self._text, at)
        return at if found is None else found.end()

    def _decode(self, at: int) -> Tuple[Any, int]:
        """Decode the value that begins at a place; return it and its end.

        Raises:
            json.JSONDecodeError: If there is none.
        """
        try:
            return self._decoder.raw_decode(self._text, at)
        except RecursionError:
            raise json.JSONDecodeError("Nested too deeply", self._text, at) from None

    def _walk(self, at: int, visit: Callable[[Union[str, int], int, int], int]) -> int:
        """Visit each member of the object or array that begins at a place; return its end.

        Args:
            at: The place.
            visit: Takes the key or the number of a member, its place and that of its value, and
                returns where the value ends.

        Raises:
            json.JSONDecodeError: If it is neither.
        """
        text = self._text
        is_object = text[at : at + 1] == "{"
        if not is_object and text[at : at + 1] != "[":
            raise json.JSONDecodeError(_NO_OBJECT, text, at)
        closing, number = "}" if is_object else "]", 0
        at = self._skip(at + 1)
        while text[at : at + 1] != closing:
            key: Union[str, int] = number
            value_at = at
            if is_object:
                if text[at : at + 1] != '"':
                    raise json.JSONDecodeError("Expecting a key in double quotes", text, at)
                key, colon = self._decode(at)
                colon = self._skip(colon)
                if text[colon : colon + 1] != ":":
                    raise json.JSONDecodeError("Expecting ':' delimiter", text, colon)
                value_at = self._skip(colon + 1)
            at = self._skip(visit(key, at, value_at))
            number += 1
            if text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif text[at : at + 1] != closing:
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        return at + 1

    def _locate(self, at: int, paths: Sequence[_Path]) -> List[int]:
        """Find places inside a whole value: of each path, the last value of it that is there."""
        wanted: Set[_Path] = {path[:length] for path in paths for length in range(len(path))}
        places: Dict[_Path, int] = {}

        def locate(path: _Path, at: int) -> int:
            places[path] = at
            if path not in wanted or self._text[at] not in "{[":
                return self._decode(at)[1]
            return self._walk(at, lambda key, _, value_at: locate((*path, key), value_at))

        locate((), at)
        found = []
        for path in paths:
            while path not in places:  # a missing member is doubted where its object stands
                path = path[:-1]
            found.append(places[path])
        return found

    def _object(self, pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            counted = Counter(key for key, _ in pairs)
            self._repeated += [key for key, count in counted.items() if count > 1]
        return made


def _is_end(error: json.JSONDecodeError) -> bool:
    """Whether the text just ends too early: in a string, a number, a word, or between values."""
    if error.msg.startswith(("Unterminated", _NO_OBJECT)):
        return error.msg != _NO_OBJECT
    return not re.search(r'[\[\]{}",:]|.{12}', error.doc[error.pos :].strip())


def _message(error: json.JSONDecodeError) -> str:
    if _is_end(error):
        return "The file ends here, in the middle, and the rest is missing."
    expected = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return f"This is not JSON: {expected}, not {error.doc[error.pos : error.pos + 20]!r}."


def _whole_number(digits: str) -> Union[int, float]:
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


def _shown(value: Any) -> str:
    """Show a value in a sentence: short, and with nothing that controls a terminal."""
    if isinstance(value, (dict, list)):
        return "an array" if isinstance(value, list) else "an object"
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}..."
    return repr(text) if isinstance(value, str) else text


class _Expected(NamedTuple):
    """What a value should be, in words, and how one sees whether it is."""

    words: str
    fits: Callable[[Any], bool]


_OBJECT = _Expected("an object", lambda value: isinstance(value, dict))
_ARRAY = _Expected("an array", lambda value: isinstance(value, list))
_TEXT = _Expected("text", lambda value: isinstance(value, str))
_TIME = _Expected(
    "a number from 0 to 1e15",  # 30 years of microseconds; sums of all in a file stay finite
    lambda value: type(value) in (float, int) and 0 <= value <= 1e15,
)
_COUNT = _Expected(
    "a whole number that is not negative", lambda value: type(value) is int and value >= 0
)
_PERCENT = _Expected(
    "a percentage as text, as in '12.34%'",
    lambda value: (
        isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,300}(\.[0-9]+)?%", value) is not None
    ),
)
_TYPES = _Expected(
    "the name of a type, or an array of them",
    lambda value: (
        isinstance(value, str)
        or (isinstance(value, list) and all(isinstance(one, str) for one in value))
    ),
)


class _TaskReader:
    """Turns the JSON of a task into objects, and collects what in it cannot be.

    Attributes:
        doubts: The path that leads to a value from that of the task, and what is wrong with it.
    """

    def __init__(self) -> None:
        self.doubts: List[Tuple[_Path, str]] = []

    def read(self, key: str, line: int, found: Any) -> Optional[Task]:
        """Make the task; None if it is none."""
        if not self._fits(found, _ARRAY, (), _shown(key)):
            return None
        name, seconds, interrupted = "", None, False
        tunings = []
        for number, item in enumerate(found):
            if not self._fits(item, _OBJECT, (number,), "An item of a task"):
                continue
            for part, inner in item.items():
                path = (number, part)
                if part not in ("basic", OPERATORS, SUBGRAPHS):
                    self.doubts.append((path, f"{_shown(part)} is no part of a task."))
                elif not self._fits(inner, _OBJECT, path):
                    continue
                elif part != "basic":
                    tunings.append(self._tuning(part, inner, path))
                else:
                    name = self._get(inner, "tuning_name", path, _TEXT) or ""
                    interrupted = _SECONDS not in inner
                    if not interrupted:
                        seconds = self._time(inner, _SECONDS, path)
        return Task(key, name, seconds, interrupted, line, tuple(tunings))

    def _tuning(self, kind: str, found: Dict[str, Any], path: _Path) -> Tuning:
        operators = tuple(self._modified(found, "repo_modified_operators", path, self._operator))
        subgraphs = tuple(self._modified(found, "repo_modified_subgraphs", path, self._subgraph))
        summary = model = None
        failed: Tuple[str, ...] = ()
        outcome = ""
        if "opat_tuning_result" in found:
            outcome = self._get(found, "opat_tuning_result", path, _TEXT) or ""
        counts = "repo_summary" in found and self._get(found, "repo_summary", path, _OBJECT)
        if counts:
            inner = (*path, "repo_summary")
            summary = Summary(*(self._get(counts, key, inner, _COUNT) for key in _COUNTS))
        if _FAILED_OPERATORS in found:
            failed = self._failed(found, path)
        if any(name in found for name in _MODEL_TIMES):
            model = ModelTime(*self._times(found, _MODEL_TIMES, path, "the model"))
        tuning = Tuning(kind, outcome, operators, subgraphs, summary, failed, model)
        self.doubts += [((*path, *inner), said) for inner, said in _contradictions(tuning)]
        return tuning

    def _modified(
        self,
        found: Dict[str, Any],
        key: str,
        path: _Path,
        make: Callable[[Dict[str, Any], _Path, str], TunedItem],
    ) -> Iterator[TunedItem]:
        """Make what was added or updated: a list, or lists below words for what became of them."""
        value, path = found.get(key, []), (*path, key)
        lists: List[Tuple[str, Any, _Path]] = [("", value, path)]
        if isinstance(value, dict):
            lists = [
                (_MODES.get(str(word), str(word)), items, (*path, word))
                for word, items in value.items()
            ]
        for mode, items, place in lists:
            if self._fits(items, _ARRAY, place):
                for number, item in enumerate(items):
                    if self._fits(item, _OBJECT, (*place, number), "An item"):
                        yield make(item, (*place, number), mode)

    def _operator(self, found: Dict[str, Any], path: _Path, mode: str) -> TunedItem:
        name = self._get(found, "op_name", path, _TEXT) or ""
        types = self._get(found, "op_type", path, _TYPES) or ()
        types = (types,) if isinstance(types, str) else tuple(types)
        if mode and "tune_performance" not in found:  # of an old release
            times = self._times(found, _OPERATOR_TIMES, path, _shown(name))
            return TunedItem(name, types, (TunedWay("", *times, mode),))
        ways = self._get(found, "tune_performance", path, _OBJECT) or {}
        path = (*path, "tune_performance")
        return TunedItem(
            name, types, tuple(self._way(way, ways[way], (*path, way), name) for way in ways)
        )

    def _way(self, way: str, found: Any, path: _Path, name: str) -> TunedWay:
        if not self._fits(found, _OBJECT, path):
            return TunedWay(way, None, None, None, "")
        times = self._times(found, _OPERATOR_TIMES, path, _shown(name))
        return TunedWay(way, *times, self._get(found, "update_mode", path, _TEXT) or "")

    def _subgraph(self, found: Dict[str, Any], path: _Path, mode: str) -> TunedItem:
        name = self._get(found, "repo_key", path, _TEXT) or ""
        times = self._times(found, _SUBGRAPH_TIMES, path, _shown(name))
        return TunedItem(name, (), (TunedWay("", *times, mode),))

    def _failed(self, found: Dict[str, Any], path: _Path) -> Tuple[str, ...]:
        """Make the names of operators that could not be tuned."""
        names = self._get(found, _FAILED_OPERATORS, path, _ARRAY) or []
        others = [number for number, name in enumerate(names) if not isinstance(name, str)]
        if others:
            what = f"{len(others):,} items are"
            if len(others) == 1:
                what = f"{_shown(names[others[0]])} is"
            said = f"{what} no name of an operator, in {_FAILED_OPERATORS}."
            self.doubts.append(((*path, _FAILED_OPERATORS, others[0]), said))
        return tuple(name for name in names if isinstance(name, str))

    def _times(
        self, found: Dict[str, Any], keys: Tuple[str, str, str], path: _Path, what: str
    ) -> _Times:
        """Make two times and a percentage, which has to be that of the times."""
        before, after = self._time(found, keys[0], path), self._time(found, keys[1], path)
        text = self._get(found, keys[2], path, _PERCENT)
        if text is None:
            return before, after, None
        reported, real = float(text[:-1]), percent_faster(before, after)
        if real is not None and not abs(reported - real) <= _TOLERANCE:
            said = (
                f"{keys[2]} of {what} is {reported:g} %, and {before:g} before and {after:g} after "
                f"make {real:.2f} %."
            )
            self.doubts.append(((*path, keys[2]), said))
        return before, after, reported

    def _time(self, found: Dict[str, Any], key: str, path: _Path) -> Optional[float]:
        value = self._get(found, key, path, _TIME)
        return None if value is None else float(value)

    def _get(self, found: Dict[str, Any], key: str, path: _Path, expected: _Expected) -> Any:
        """Return a member of an object; None, and a doubt, if it is not as expected."""
        value = found.get(key)
        return value if self._fits(value, expected, (*path, key)) else None

    def _fits(self, value: Any, expected: _Expected, path: _Path, name: str = "") -> bool:
        """Whether a value is as expected; a doubt if it is not."""
        if expected.fits(value):
            return True
        state = "missing or null" if value is None else _shown(value)
        said = f"{name or path[-1]} is {state}; it should be {expected.words}."
        self.doubts.append((path, said))
        return False


def _contradictions(tuning: Tuning) -> Iterator[Tuple[_Path, str]]:
    """Yield what in a tuning does not add up: the keys that lead to it, and a sentence.

    None of it is certain to be wrong. Source: the manual's description of each count. Added,
    updated, reserved and unsatisfied are all there is for a policy, and those that were in the
    repository before are the ones it was hit with. The manual's own sample of sub-graphs breaks
    the first rule by one.
    """
    outcome, summary = tuning.outcome, tuning.summary
    if tuning.kind == OPERATORS and outcome not in OUTCOMES:
        found = f"is {_shown(outcome)}," if outcome else "says"
        said = f"opat_tuning_result {found} none of {', '.join(OUTCOMES)}."
        yield ("opat_tuning_result",), said
    elif tuning.kind == OPERATORS and tuning.failed and outcome != FAILED:
        number = len(tuning.failed)
        yield (
            ("tuning_failed_operators",),
            f"tuning_failed_operators names {number:,} operator{'' if number == 1 else 's'}, and "
            f"opat_tuning_result says {outcome!r}.",
        )
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
    for mode, key, count in (
        ("add", "repo_add_num", added),
        ("update", "repo_update_num", updated),
    ):
        if count is not None and count not in (once[mode], each[mode]):
            said = f"{key} is {count}, and {each[mode]} with update mode {mode!r} are listed."
            yield ("repo_summary", key), said

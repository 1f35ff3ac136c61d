"""From the bytes of a result file to its tasks, also where a part of the file is missing.

AOE writes the file while it tunes, so that a run that was killed leaves half of one. Behind a place
that is damaged the next task is looked for; what lies between is noted as lost.
"""

import os
import re
from typing import List, NamedTuple, Optional, Set

from ascend_session.aoe.results_cursor import Cursor, DamageError, Notes, word_for
from ascend_session.aoe.results_model import ResultFile, Task
from ascend_session.aoe.results_tasks import TaskReader
from ascend_session.errors import ResultError
from ascend_session.option_files.source import Kind, decoded, read_content

__all__ = ["KIND", "parse_result", "read_file"]

_MIB = 1 << 20
KIND = Kind("a result file of AOE", "the report", ResultError, most_bytes=100 * _MIB)
_PREFIX = "report_"
_TASK_KEY = re.compile(rf'"{_PREFIX}[^"\\\x00-\x1f]*"[ \t\r\n]*:')
# When looking for tasks behind damage is given up: so many times the text, and so many places.
_MOST_READ = 4
_MOST_DAMAGE = 100
_HINT = "Name a file aoe_result_opat_*.json or aoe_result_sgat_*.json."


class _Text(NamedTuple):
    """A text, and where its first byte that is no UTF-8 stands, counted in letters."""

    text: str
    wrong: Optional[int]


def read_file(path: str) -> ResultFile:
    """Reads a result file.

    Raises:
        ResultError: As `parse_result`, or if there is no such file, it is no file, cannot be read
            or has more than 100 MiB. A pipe is refused and never waited for.
    """
    if "\0" not in path:
        try:
            os.stat(path)
        except FileNotFoundError:
            raise ResultError(f"{path}: is not there.", hint=_HINT) from None
        except OSError as error:
            raise ResultError(f"{path}: cannot be read: {error.strerror}.", hint=_HINT) from error
    return parse_result(read_content(path, KIND), path)


def parse_result(content: bytes, name: str = "<text>") -> ResultFile:
    """Reads the content of a result file.

    Args:
        content: Its bytes.
        name: What messages call it.

    Raises:
        ResultError: If it is empty, is UTF-16 or compressed, or has no task and not even the
            beginning of one.
    """
    text, wrong = _text_of(content, name)
    notes = Notes(text)
    if wrong is not None:
        notes.damage(wrong, "This byte is not UTF-8 text; a sign stands for it in what follows.")
    reader = _Tasks(Cursor(text, notes), notes)
    tasks = reader.read()
    damage, doubts = notes.remarks()
    if not tasks and (damage or doubts) and not _TASK_KEY.search(text) and not _is_half(text):
        if reader.first is None:
            said = f"is JSON without any task ('{_PREFIX}...'), so no result file of AOE."
            raise ResultError(f"{name}:1:1: {said}", hint=_HINT)
        said = reader.first.message
        place = next(one for one in damage if one.message.startswith(said))
        raise ResultError(f"{name}:{place.line}:{place.column}: {said}", hint=_HINT)
    return ResultFile(name, tuple(tasks), damage, doubts)


class _Tasks:
    """Reads all tasks of a text.

    Attributes:
        first: What is damaged first, if anything is.
    """

    def __init__(self, cursor: Cursor, notes: Notes) -> None:
        self._cursor = cursor
        self._notes = notes
        self._reader = TaskReader(cursor, notes)
        self._tasks: List[Task] = []
        self._seen: Set[str] = set()
        self._budget = _MOST_READ * len(cursor.text)
        self._attempts = _MOST_DAMAGE
        self.first: Optional[DamageError] = None
        self._begin = 0  # of the value that is being read
        self._key = ""

    def read(self) -> List[Task]:
        """The tasks that are whole, in their order."""
        cursor = self._cursor
        inside = False
        while True:
            try:
                if cursor.ahead() == "[" and not inside:
                    self._add("", cursor.at)
                else:
                    self._members(inside)
                if cursor.ahead():
                    raise DamageError(cursor.at, "Here the file should end.", False)
                return self._tasks
            except DamageError as error:
                following = self._after(error)
            if following is None:
                return self._tasks
            cursor.at, inside = following, True

    def _members(self, inside: bool) -> None:
        for key, at in self._cursor.members(inside):
            self._begin, self._key = self._cursor.at, key
            if key.startswith(_PREFIX):
                self._add(key, at)
                if key in self._seen:
                    said = f"The key {word_for(key)} stands here again; both tasks are counted."
                    self._notes.doubt(at, (), said)
                self._seen.add(key)
            else:
                self._cursor.value()
                self._notes.doubt(at, (), f"{word_for(key)} is no task ('{_PREFIX}...').")
            self._begin, self._key = self._cursor.at, ""

    def _add(self, key: str, at: int) -> None:
        task = self._reader.read(key, at)
        if task is not None and (key or task.name or task.tunings):
            self._tasks.append(task)

    def _after(self, error: DamageError) -> Optional[int]:
        """Notes what is lost; gives the place of the next task, None if there is none."""
        self.first = self.first or error
        self._attempts -= 1
        self._budget -= max(0, error.at - self._begin)
        enough = self._attempts < 0 or self._budget < 0
        found = None if enough else _TASK_KEY.search(self._cursor.text, self._begin)
        lost = f"The task {word_for(self._key)} is lost" if self._key else ""
        if found is not None:
            between = self._cursor.text[self._begin : found.start()].strip("\ufeff \t\r\n")
            lost = lost or ("What stands here is lost" if between else "Nothing is lost")
            lost = f"{lost}; the next task is read."
            self._begin = found.end()
        elif enough:
            lost = f"{lost or 'The rest is lost'}: there is so much damage that nobody reads on."
        elif error.is_end:
            lost = f"{lost} and the rest is missing" if lost else "The rest is missing"
            lost = f"{lost}. Before it: {_whole_tasks(len(self._tasks))}."
        else:
            lost = f"{lost}, and behind it there is no other." if lost else "Nothing more is read."
        self._notes.damage(error.at, f"{error.message} {lost}")
        return None if found is None else found.start()


def _whole_tasks(number: int) -> str:
    return f"{number} whole task{'' if number == 1 else 's'}"


def _text_of(content: bytes, name: str) -> _Text:
    mark = decoded(name, content[:2]).mark
    if mark is not None:
        said = f"{name}:1:1: is {mark}, not UTF-8 text; AOE writes {KIND.what} as that."
        raise ResultError(said, hint="Name the file as AOE has written it.")
    try:
        text = content.decode("utf-8")
        wrong = None
    except UnicodeDecodeError as error:
        text = content.decode("utf-8", "replace")
        wrong = len(content[: error.start].decode("utf-8"))
    if not text.strip("\ufeff \t\r\n"):
        raise ResultError(f"{name}:1:1: is empty.", hint="AOE fills it while it tunes.")
    return _Text(text, wrong)


def _is_half(text: str) -> bool:
    """Whether a text without a task can be the beginning of a result file."""
    begun = text.lstrip("\ufeff \t\r\n")
    rest = begun[1:].lstrip()
    if begun[0] == "[":
        return rest[:1] in ("", "{")
    return begun[0] == "{" and f'"{_PREFIX}'.startswith(rest[: len(_PREFIX) + 1])

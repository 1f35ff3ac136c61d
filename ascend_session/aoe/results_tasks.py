"""From the JSON of a task to a `Task`, and what in it does not add up.

Source: the manual's tables of both result files; the old forms (one task as an array, operators
below ``add_repo_operators``) are those of the manual of CANN 6.2 and 6.3.
"""

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ascend_session.aoe.results_checks import check_tuning
from ascend_session.aoe.results_cursor import Cursor, Notes, word_for
from ascend_session.aoe.results_model import (
    OPERATORS,
    SUBGRAPHS,
    Operator,
    Subgraph,
    Summary,
    Task,
    Tuning,
)
from ascend_session.aoe.results_values import Values

__all__ = ["TaskReader"]

_MODIFIED_OPERATORS, _MODIFIED_SUBGRAPHS = "repo_modified_operators", "repo_modified_subgraphs"
_FAILED = "tuning_failed_operators"
# What became of those that stand below such a key, in the word of update_mode.
_MODES = {
    "add_repo_operators": "add",
    "update_repo_operators": "update",
    "add_repo_subgraphs": "add",
    "update_repo_subgraphs": "update",
}


class TaskReader:
    """Reads the task that begins at the cursor."""

    def __init__(self, cursor: Cursor, notes: Notes) -> None:
        self._cursor = cursor
        self._notes = notes
        self._values = Values(notes)

    def read(self, key: str, at: int) -> Optional[Task]:
        """The task; None if it is none, which is noted.

        Args:
            key: Its key.
            at: The place of the key.

        Raises:
            DamageError: If the text ends in the middle, or is no JSON.
        """
        cursor = self._cursor
        if cursor.ahead() != "[":
            start = cursor.at
            self._values.is_array(cursor.value(), start, word_for(key))
            return None
        name, seconds, interrupted = "", None, False
        tunings: List[Tuning] = []
        for _ in cursor.items():
            if cursor.ahead() != "{":
                self._skip("An item of a task", "an object")
                continue
            for part in self._keys(lambda part: part in (OPERATORS, SUBGRAPHS)):
                start = cursor.at
                if part == "basic":
                    name, seconds, interrupted = self._values.basic(cursor.value(), start)
                elif part in (OPERATORS, SUBGRAPHS):
                    tunings += self._tuning(part)
                else:
                    cursor.value()
                    self._notes.doubt(start, (), f"{word_for(part)} is no part of a task.")
        line = self._notes.line_of(at)
        return Task(key, name, seconds, interrupted, line, tuple(tunings))

    def _tuning(self, kind: str) -> Iterator[Tuning]:
        cursor, values = self._cursor, self._values
        begin = cursor.at
        if cursor.ahead() != "{":
            self._skip(kind, "an object")
            return
        operators: List[Operator] = []
        subgraphs: List[Subgraph] = []
        summary: Optional[Summary] = None
        failed: Tuple[str, ...] = ()
        outcome = ""
        others: Dict[str, Any] = {}
        for key in self._keys():
            start = cursor.at
            self._notes.know(begin, key, start)
            if key == _MODIFIED_OPERATORS:
                operators = [*self._modified(values.operator)]
            elif key == _MODIFIED_SUBGRAPHS:
                subgraphs = [*self._modified(values.subgraph)]
            elif key == "repo_summary":
                summary = values.summary(cursor.value(), start)
            elif key == _FAILED:
                failed = values.failed(cursor.value(), start)
            elif key == "opat_tuning_result":
                outcome = values.outcome(cursor.value(), start)
            else:
                found = cursor.value()
                if key.startswith("model_"):
                    others[key] = found
        model = values.model(others, begin)
        made = Tuning(kind, outcome, tuple(operators), tuple(subgraphs), summary, failed, model)
        for path, said in check_tuning(made):
            self._notes.doubt(begin, path, said)
        yield made

    def _modified(self, made: Any) -> Iterator[Any]:
        """What was added or updated: a list, or lists below words for what became of them."""
        cursor = self._cursor
        if cursor.ahead() == "[":
            yield from self._listed(made, "")
        elif cursor.ahead() == "{":
            for key in self._keys(lambda _: True):
                if cursor.ahead() == "[":
                    yield from self._listed(made, _MODES.get(key, key))
                else:
                    self._skip(key, "an array")
        else:
            self._skip("What was modified", "an array or an object")

    def _listed(self, made: Any, mode: str) -> Iterator[Any]:
        for _ in self._cursor.items():
            start = self._cursor.at
            one = made(self._cursor.value(), start, mode)
            if one is not None:
                yield one

    def _keys(self, adds: Callable[[str], bool] = lambda _: False) -> Iterator[str]:
        """The keys of an object; if one stands twice, ``adds`` says whether both count."""
        seen = set()
        for key, at in self._cursor.members():
            if key in seen:
                self._notes.repeated(at, key, adds(key))
            seen.add(key)
            yield key

    def _skip(self, what: str, wanted: str) -> None:
        start = self._cursor.at
        found = self._cursor.value()
        self._notes.doubt(start, (), f"{what} is {word_for(found)}; it should be {wanted}.")

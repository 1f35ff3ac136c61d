"""Runs the program of the collective contract as a job, and reads what its ranks said."""

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ascend_session import LaunchResult
from tests.collective_cases import tolerance
from tests.launched import launched

__all__ = ["Answers", "answers_of"]

_PROGRAM = "collectives.py"
_MARK = "@ "
_LAST_LINES = 15

Line = Dict[str, Any]


class Answers:
    """What the ranks of a job said.

    Attributes:
        ranks: The number of ranks.
        code: The exit code of the launch.
    """

    def __init__(self, result: LaunchResult) -> None:
        self.ranks = len(result.ranks)
        self.code = result.code
        self._lines = [_lines(rank.stdout) for rank in result.ranks]
        self._logs = [_end_of(rank.stderr) for rank in result.ranks]

    def of(self, check: str) -> List[Line]:
        """The lines of one check, by rank; the error of a rank that has none."""
        return [self._of(check, rank) for rank in range(self.ranks)]

    def problems(self, check: str, ranks: Sequence[int]) -> Dict[int, str]:
        """What is wrong with the answers of these ranks, in words; nothing if they are NumPy's."""
        found = {rank: _problem(check, self._of(check, rank)) for rank in ranks}
        return {rank: words for rank, words in found.items() if words}

    def _of(self, check: str, rank: int) -> Line:
        for line in self._lines[rank]:
            if line["check"] == check:
                return line
        errors = [line["error"] for line in self._lines[rank] if "error" in line]
        return {"error": "; ".join(errors) or f"it says nothing of it:\n{self._logs[rank]}"}


def answers_of(
    backend: str, ranks: int, sections: Sequence[str], folder: Path, **asked: Any
) -> Answers:
    """Launches the program.

    Args:
        backend: ``npu`` or ``stub``.
        ranks: How many.
        sections: Which parts of it.
        folder: For logs.
        asked: More of `LaunchConfig`.
    """
    words = [backend, json.dumps(list(sections))]
    return Answers(launched(_PROGRAM, ranks, folder, backend=backend, args=words, **asked))


def _lines(path: str) -> List[Line]:
    text = Path(path).read_text(errors="replace") if os.path.exists(path) else ""
    return [json.loads(line[len(_MARK) :]) for line in text.splitlines() if line.startswith(_MARK)]


def _end_of(path: str) -> str:
    text = Path(path).read_text(errors="replace") if os.path.exists(path) else ""
    return "\n".join(text.splitlines()[-_LAST_LINES:])


def _problem(check: str, line: Line) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if "error" in line:
        return str(line["error"])
    if "expected" in line:
        same = line["found"] == line["expected"]
        return "" if same else f"{line['found']}, not {line['expected']}"
    if line["shape"] != line["expected_shape"]:
        return f"shape {line['shape']}, not {line['expected_shape']}"
    if check.split()[-1] != line["dtype"] and " " in check and check.split()[0] in _TYPED:
        return f"type {line['dtype']}"
    if line["off"] is not None and line["off"] > tolerance(check):
        return f"off by {line['off']:g} of the largest number"
    return ""


_TYPED = (
    "allreduce",
    "reduce",
    "reduce_scatter",
    "allgather",
    "broadcast",
    "all_to_all_v",
    "all_to_all_v_c",
    "there",
)

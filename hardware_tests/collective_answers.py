"""Runs the program of the collective contract as a job, and reads what its ranks said."""

import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ascend_session import LaunchConfig, LaunchResult, launch
from hardware_tests.collective_cases import section_of, split_section, tolerance
from hardware_tests.running import GE_FINALIZE_FAILED, environment_of_programs

__all__ = ["Answers", "answers_of"]

_PROGRAM = Path(__file__).resolve().parent / "programs" / "collectives.py"
_MARK = "@ "
_LAST_LINES = 15
_ENOUGH_S = 3600.0  # after which no other job is started

Line = Dict[str, Any]


class _Job:
    """What the ranks of one job said.

    Args:
        result: How it ended.
        parts: What it was to do, in order.

    Attributes:
        failed_part: The first that was not done on all ranks; None if each was done, or none begun.
    """

    def __init__(self, result: LaunchResult, parts: Sequence[str]) -> None:
        self._lines = [_lines(rank.stdout) for rank in result.ranks]
        self._logs = [_end_of(rank.stderr) for rank in result.ranks]
        ranks = range(len(result.ranks))
        undone = [part for part in parts if not all(self.line(f"done {part}", n) for n in ranks)]
        begun = all(self.line("begun", n) for n in ranks)
        self.failed_part = undone[0] if undone and begun else None

    def line(self, check: str, rank: int) -> Line:
        """What a rank said of a check; empty if it did not."""
        return next((line for line in self._lines[rank] if line["check"] == check), {})

    def error(self, rank: int) -> Line:
        """Why a rank did not say something."""
        errors = [line["error"] for line in self._lines[rank] if "error" in line]
        return {"error": "; ".join(errors) or f"it says nothing of it:\n{self._logs[rank]}"}


class Answers:
    """What the ranks said, in one job or in several that did the rest after one that failed.

    Attributes:
        ranks: The number of ranks.
        code: The exit code of the first launch that failed; 0 if none did.
        unfinalised: What the adapter logged of devices that it could not finalise.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.code = 0
        self.unfinalised: List[str] = []
        self._jobs: List[_Job] = []

    def add(self, result: LaunchResult, parts: Sequence[str]) -> List[str]:
        """Take in a job that was to do these parts, and name those that are left to do.

        A section that failed is left as its parts, so that what fails in it fails alone.
        """
        job = _Job(result, parts)
        self._jobs.append(job)
        self.code = self.code or result.code
        logs = "\n".join(_end_of(rank.stderr) for rank in result.ranks)
        self.unfinalised += [line for line in logs.splitlines() if GE_FINALIZE_FAILED in line]
        if job.failed_part is None:
            return []
        following = list(parts).index(job.failed_part) + 1
        return [*split_section(job.failed_part), *parts[following:]]

    def of(self, check: str) -> List[Line]:
        """The lines of one check, by rank; the error of a rank that has none."""
        return [self._of(check, rank) for rank in range(self.ranks)]

    def problems(self, check: str, ranks: Sequence[int]) -> Dict[int, str]:
        """What is wrong with the answers of these ranks, in words; nothing if they are NumPy's."""
        found = {rank: _problem(check, self._of(check, rank)) for rank in ranks}
        return {rank: words for rank, words in found.items() if words}

    def _of(self, check: str, rank: int) -> Line:
        lines = [job.line(check, rank) for job in self._jobs]
        if check == "end":  # of each job
            return lines[0] if all(lines) else self._jobs[lines.index({})].error(rank)
        parts = (check, check.replace("and back", "there"), section_of(check))
        failed = [job for job in self._jobs if job.failed_part in parts]
        return next(filter(None, lines), {}) or (failed or self._jobs)[-1].error(rank)


def answers_of(
    backend: str, ranks: int, sections: Sequence[str], folder: Path, **asked: Any
) -> Answers:
    """Launches the program; again with the rest if a part of it failed, but not for ever.

    Args:
        backend: ``npu`` or ``stub``.
        ranks: How many.
        sections: Which parts of it.
        folder: For logs.
        asked: More of `LaunchConfig`.
    """
    answers = Answers(ranks)
    parts = list(sections)
    end = time.monotonic() + _ENOUGH_S
    while True:
        config = LaunchConfig(
            script=str(_PROGRAM),
            args=[backend, json.dumps(parts)],
            processes=ranks,
            backend=backend,
            cwd=str(folder),
            show="none",
            env={
                "PYTHONPATH": environment_of_programs()["PYTHONPATH"],
                "TF_CPP_MIN_LOG_LEVEL": "2",
            },
            **asked,
        )
        parts = answers.add(launch(config), parts)
        if not parts or time.monotonic() > end:
            return answers


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

"""The page about a run on devices that can be sent: what was run, on what, and how it ended."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from hardware_tests.running import environment_of_programs

__all__ = [
    "CLI",
    "FAILED",
    "NOT_RUN",
    "PASSED",
    "Machine",
    "Page",
    "Step",
    "look_at_machine",
    "name_devices",
]

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"

CLI = (sys.executable, "-m", "ascend_session")
"""The command ``ascend-session`` of this interpreter."""

# Findings of ``doctor`` that are on the page, the most serious first.
_SEVERITIES = ("error", "warning", "not checked")
_LOOK_S = 180.0  # doctor imports TensorFlow and the adapter, which it gives up after two minutes


class Step(NamedTuple):
    """One thing that was to be run.

    Attributes:
        name: What it does.
        devices: On which logical ids; empty if on none.
        outcome: ``passed``, ``failed`` or ``not run``.
        elapsed_s: How long it took, in seconds.
        times: What took how long in it, as the slowest rank had it, in seconds.
        error: Why it failed or was not run, and what to do.
        log: The file or folder that has all of it.
    """

    name: str
    devices: str
    outcome: str
    elapsed_s: float = 0.0
    times: Tuple[Tuple[str, float], ...] = ()
    error: str = ""
    log: str = ""


@dataclass(frozen=True)
class Machine:
    """What ``ascend-session doctor`` and ``ascend-session devices`` say, as their JSON.

    Attributes:
        doctor: That of ``doctor``; empty if it gave none.
        devices: That of ``devices``; empty if it gave none.
        problems: Why one of them gave none, in sentences.
    """

    doctor: Dict[str, Any] = field(default_factory=dict)
    devices: Dict[str, Any] = field(default_factory=dict)
    problems: Tuple[str, ...] = ()

    @property
    def visible(self) -> List[Dict[str, Any]]:
        """The devices that a process gets, by logical id."""
        return [one for one in self.devices.get("devices", []) if one["logical_id"] is not None]


@dataclass(frozen=True)
class Page:
    """What was run, on what, and how it ended.

    Attributes:
        title: What this run was.
        verdict: How it ended, in a sentence.
        ok: Whether nothing failed.
        began: When, in seconds since 1970.
        elapsed_s: How long it took, in seconds.
        folder: What the run wrote.
        machine: What it ran on.
        steps: What was run, in order.
    """

    title: str
    verdict: str
    ok: bool
    began: float
    elapsed_s: float
    folder: str
    machine: Machine
    steps: Sequence[Step]

    def as_dict(self) -> Dict[str, Any]:
        """Give plain values, which JSON can hold."""
        return {
            "title": self.title,
            "ok": self.ok,
            "verdict": self.verdict,
            "began": self._began_text(),
            "elapsed_s": round(self.elapsed_s, 3),
            "folder": self.folder,
            "steps": [
                {
                    **step._asdict(),
                    "elapsed_s": round(step.elapsed_s, 3),
                    "times": dict(step.times),
                }
                for step in self.steps
            ],
            "machine": asdict(self.machine),
        }

    def as_text(self) -> str:
        """Give the page as a person reads it, lines ending as in a file."""
        doctor = self.machine.doctor
        facts = [("run", f"{self.title}, {self._began_text()}, {self.elapsed_s:.0f} s")]
        facts += [(name, str(value)) for name, value in doctor.get("facts", {}).items()]
        facts += [(f"device {one['logical_id']}", _describe(one)) for one in self.machine.visible]
        facts += [("folder", self.folder)]
        lines = _align(facts)
        if self.steps:
            table = [["step", "devices", "outcome", "seconds", ""], *map(_row, self.steps)]
            lines += ["", *_align(table)]
        for _, alike in groupby(self.steps, lambda step: (step.outcome, step.error)):
            steps = list(alike)
            if steps[0].error:
                names = ", ".join(dict.fromkeys(step.name for step in steps))
                on = f" on {steps[0].devices}" if steps[0].devices else ""
                details = [*steps[0].error.splitlines(), *filter(None, [steps[0].log])]
                lines += ["", f"{names}{on}, {steps[0].outcome}:"]
                lines += [f"  {detail}" for detail in details]
        lines += ["", *self.machine.problems]
        found = [one for one in doctor.get("findings", []) if one["severity"] in _SEVERITIES]
        for one in sorted(found, key=lambda one: _SEVERITIES.index(one["severity"])):
            lines.append(f"  {one['severity']}: {one['said']}")
            lines += [f"    hint: {one['hint']}"] if one["hint"] else []
        return "\n".join([*lines, "", self.verdict, ""])

    def write_json(self, path: str) -> None:
        """Write the page as JSON.

        Raises:
            OSError: If that is not possible.
        """
        Path(path).write_text(json.dumps(self.as_dict(), indent=2) + "\n")

    def _began_text(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.began))


def look_at_machine() -> Machine:
    """Have ``doctor`` and ``devices`` look at this machine, each in a process with a time limit."""
    answers: Dict[str, Dict[str, Any]] = {}
    problems = []
    for command in ("doctor", "devices"):
        try:
            ended = subprocess.run(
                [*CLI, command, "--json"],
                env=environment_of_programs(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LOOK_S,
                check=False,
            )
            answers[command] = json.loads(ended.stdout.decode(errors="replace"))
        except subprocess.TimeoutExpired:
            problems.append(f"`ascend-session {command}` did not end within {_LOOK_S:.0f} s.")
        except ValueError:
            last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
            problems.append(f"`ascend-session {command}` gave no answer: {' '.join(last)}")
    return Machine(answers.get("doctor", {}), answers.get("devices", {}), tuple(problems))


def _describe(device: Dict[str, Any]) -> str:
    parts = [device["name"] or "unknown", f"health {device['health'] or 'unknown'}"]
    parts += [f"held by process {one['pid']} ({one['command']})" for one in device["holders"]]
    return ", ".join(parts)


def _row(step: Step) -> List[str]:
    times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in step.times)
    return [step.name, step.devices, step.outcome, f"{step.elapsed_s:.1f}", times]


def name_devices(ids: Sequence[int]) -> str:
    """Name devices by their logical ids: ``0-7`` if none is left out between, else ``0,2``."""
    if len(ids) > 1 and list(ids) == list(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}-{ids[-1]}"
    return ",".join(map(str, ids))


def _align(rows: Sequence[Sequence[str]]) -> List[str]:
    """Put rows below each other, so that columns begin at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]

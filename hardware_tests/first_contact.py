"""The least that shows whether devices work, one card first: before anybody starts the tests.

Each step is a launch of its own (``ascend-session launch``), for a failed initialisation ends its
process (guides/facts/process.md#a-failed-initialisation), and one that hangs has to be ended.
After a step that failed none is run on the same devices.
"""

import contextlib
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from hardware_tests import limits
from hardware_tests.jobs import find_rank_table, why_no_job
from hardware_tests.page import (
    CLI,
    FAILED,
    NOT_RUN,
    PASSED,
    Machine,
    Page,
    Step,
    look_at_machine,
    name_devices,
)
from hardware_tests.running import GE_FINALIZE_FAILED, environment_of_programs

__all__ = ["make_contact"]

_PROGRAM = Path(__file__).resolve().parent / "programs" / "contact.py"
_ON_ONE = ("initialise", "graph", "shutdown")
_ON_ALL = ("initialise", "graph", "allreduce", "shutdown")
_ERROR_CODE = re.compile(r"\bE[A-Z0-9]\d{4}\b")  # guides/facts/failures.md
_END_S = 15.0  # for a launcher to end its ranks, besides their own grace


def make_contact(folder: Path, limit_s: float) -> Page:
    """Look at the machine, then run the steps on one card and on all.

    Args:
        folder: A folder of the run, which everything is written to.
        limit_s: Seconds that one step may take.
    """
    began = time.time()
    machine = look_at_machine()
    presence = _judge_presence(machine, time.time() - began)
    steps = [presence]
    if presence.outcome == PASSED:
        free = [one["logical_id"] for one in machine.visible if not one["holders"]]
        every = [one["logical_id"] for one in machine.visible]
        steps += _run_steps(_ON_ONE, free[:1], _why_no_card(machine), folder, limit_s)
        obstacle = _why_not_all(machine)
        if any(step.outcome == FAILED for step in steps):
            obstacle = "A step on one card failed."
        steps += _run_steps(_ON_ALL, every, obstacle, folder, limit_s)
    verdict, ok = _judge(machine, steps)
    elapsed_s = time.time() - began
    return Page("first contact", verdict, ok, began, elapsed_s, str(folder), machine, steps)


def _judge_presence(machine: Machine, elapsed_s: float) -> Step:
    """Say whether anything can be run at all; what ``doctor`` finds besides is on the page."""
    checks = {entry["check"] for entry in _errors(machine)} & {"tensorflow", "adapter", "backend"}
    error = ""
    if not machine.visible:
        error = "\n".join(machine.problems) or "No device is listed by `ascend-session devices`."
    elif checks:
        error = "\n".join(
            f"{entry['said']} {entry['hint'] or ''}".strip()
            for entry in _errors(machine)
            if entry["check"] in checks
        )
    outcome = FAILED if error else PASSED
    devices = name_devices([one["logical_id"] for one in machine.visible])
    return Step("presence", devices, outcome, elapsed_s, error=error)


def _errors(machine: Machine) -> List[Dict[str, Any]]:
    findings: List[Dict[str, Any]] = machine.doctor.get("findings", [])
    return [entry for entry in findings if entry["severity"] == "error"]


def _name_holders(machine: Machine) -> str:
    return "; ".join(
        f"process {holder['pid']} ({holder['command'] or 'unknown'}) holds device "
        f"{device['logical_id']}"
        for device in machine.visible
        for holder in device["holders"]
    )


def _why_no_card(machine: Machine) -> Optional[str]:
    if all(device["holders"] for device in machine.visible):
        return f"Every device is held: {_name_holders(machine)}. End it, and start again."
    return None


def _why_not_all(machine: Machine) -> Optional[str]:
    count = len(machine.visible)
    if count < 2:
        return "There is one device only."
    if any(device["holders"] for device in machine.visible):
        return f"Not all are free: {_name_holders(machine)}. End it, and start again."
    return why_no_job([device["family"] for device in machine.visible], count)


def _run_steps(
    names: Sequence[str],
    devices: Sequence[int],
    obstacle: Optional[str],
    folder: Path,
    limit_s: float,
) -> Iterator[Step]:
    """Run these steps in order; none after one that failed, and none if there is an obstacle."""
    shown = name_devices(devices)
    for name in names:
        if obstacle:
            yield Step(name, shown, NOT_RUN, error=obstacle)
            continue
        step = _run(name, devices, folder / f"{name}-{len(devices)}", limit_s)
        yield step
        if step.outcome == FAILED:
            obstacle = f"The step before failed: {name}."


def _run(name: str, devices: Sequence[int], folder: Path, limit_s: float) -> Step:
    """Run one step on these devices, as a job of its own."""
    folder.mkdir(parents=True)
    command = [*CLI, "launch"]
    command += ["-n", str(len(devices)), "--devices", ",".join(map(str, devices))]
    command += ["--backend", "npu", "--json", "--show", "none", "--cwd", str(folder)]
    command += ["--log-dir", str(folder / "logs"), "--grace", str(limits.GRACE)]
    table = find_rank_table(len(devices))
    command += ["--rank-table", table] if table else ["--no-rank-table"]
    command += [str(_PROGRAM), name, str(folder)]
    began = time.time()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            env=environment_of_programs(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code: Optional[int] = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            stays = not _end(process)
    elapsed_s = time.time() - began
    error = _explain(folder, code, limit_s)
    if stays:
        error += " Its process cannot be ended, and may hold the device until a restart."
    outcome = FAILED if error else PASSED
    times = _read_times(folder)
    return Step(name, name_devices(devices), outcome, elapsed_s, times, error, str(folder))


def _end(process: "subprocess.Popen[bytes]") -> bool:
    """End a launcher, which ends its ranks; whether it has ended."""
    for number, patience_s in ((signal.SIGTERM, limits.GRACE + _END_S), (signal.SIGKILL, _END_S)):
        if process.poll() is not None:
            return True
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
    return process.poll() is not None


def _explain(folder: Path, code: Optional[int], limit_s: float) -> str:
    """Say why a step failed and what to do; empty if it did not fail."""
    if code == 0:
        return _explain_shutdown(folder)
    if code is None:
        during = sorted({lines[-1]["begins"] for lines in _read_notes(folder) if lines})
        where = f" It was at: {', '.join(during)}." if during else ""
        return f"It did not end within {limit_s:g} s, and was ended.{where}"
    with contextlib.suppress(ValueError, KeyError, IndexError, TypeError, OSError):
        cause = json.loads((folder / "stdout").read_text(errors="replace"))["attempts"][-1]["cause"]
        lines = [cause["said"], (cause["failure"] or {}).get("line", ""), cause["advice"]]
        lines += [] if cause["failure"] else cause["tail"][-3:]
        return "\n".join(dict.fromkeys(filter(None, lines)))
    last = (folder / "stderr").read_text(errors="replace").strip().splitlines()[-8:]
    return "\n".join([f"The launch ended with {code}.", *last])


def _explain_shutdown(folder: Path) -> str:
    """Say that GE was not finalised, which the adapter only logs; empty if it was."""
    for log in sorted((folder / "logs").rglob("stderr.log")):
        lines = log.read_text(errors="replace").splitlines()
        failed = [line for line in lines if GE_FINALIZE_FAILED in line]
        if failed:
            codes = [line for line in lines if _ERROR_CODE.search(line) and line not in failed]
            advice = "Then look with 'npu-smi info' whether a process holds the device."
            return "\n".join([*failed, *codes, advice])
    return ""


def _read_notes(folder: Path) -> List[List[Dict[str, Any]]]:
    """What each rank did, in order."""
    files = sorted(folder.glob("rank_*.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def _read_times(folder: Path) -> Tuple[Tuple[str, float], ...]:
    """How long each part took on the rank that took longest."""
    times: Dict[str, float] = {}
    for lines in _read_notes(folder):
        for line, following in zip(lines, lines[1:]):
            took_s = round(following["after_s"] - line["after_s"], 3)
            times[line["begins"]] = max(took_s, times.get(line["begins"], 0.0))
    return tuple(times.items())


def _judge(machine: Machine, steps: Sequence[Step]) -> Tuple[str, bool]:
    """Sum up in a sentence; whether all is well."""
    failed = [f"{step.name} on {step.devices}" for step in steps if step.outcome == FAILED]
    held = any(device["holders"] for device in machine.visible)
    if not machine.visible:
        return steps[0].error, False
    if failed:
        return f"Failed: {', '.join(failed)}. Do not start the tests before this passes.", False
    ran = sum(step.outcome == PASSED for step in steps)
    left = len(steps) - ran
    if left:
        return f"{ran} steps passed, and {left} were not run: {steps[-1].error}", not held
    return f"All {ran} steps passed; scripts/test hardware_tests runs the tests.", True

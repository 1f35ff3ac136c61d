"""Conditions about devices, folders and installed software.

Source: seed 003 (tuning precautions, environment variables); options_notes a40 and b; the adapter's
manual, AOE.md: subgraphs are not tuned on A2 and A3.
"""

import os
import re
from typing import Iterator, Mapping, Optional

from ascend_session.aoe.asked import Asked
from ascend_session.aoe.condition import FAILS, NOT_CHECKED, OK, Condition, judged, shown
from ascend_session.aoe.folders import fault_of
from ascend_session.aoe.repository import BANK, repository_of
from ascend_session.checks.finding import ERROR, one_line
from ascend_session.checks.finding import OK as FOUND_OK
from ascend_session.checks.holders import Seen
from ascend_session.checks.toolkit import check_sourced
from ascend_session.cluster.variables import number
from ascend_session.config.tuning import MODES
from ascend_session.hardware.command import ask, find
from ascend_session.hardware.device import Device, DeviceReport
from ascend_session.hardware.families import family

__all__ = ["DEVICE_MEMORY", "ONE_USER", "devices", "software"]

ONE_USER, DEVICE_MEMORY = "one user", "device memory"
"""What may fail because others hold the device, and only until they have ended."""

_VERSION = re.compile(r"Python ([0-9]+)\.([0-9]+)[.0-9]*")
_OLDEST = (3, 7)
# AOE tunes training on these, and subgraphs on the first alone.
_ABLE = tuple(str(family(chip)) for chip in ("910A", "910B", "910C"))
_MB = 2**20
_THERE = "Measure it on the machine that is to tune."


def devices(
    report: DeviceReport, mode: str, asked: Asked, environ: Mapping[str, str]
) -> Iterator[Condition]:
    """The conditions about the device that tunes.

    Args:
        report: What is on this machine.
        mode: What is tuned: ``"1"``, ``"2"`` or ``"4"``.
        asked: What the user knows.
        environ: The environment of the run.
    """
    device = _device(report, environ)
    yield _product(device, mode)
    yield _one_user(report, device)
    yield _cores(asked)
    yield _device_memory(device, asked)


def software(mode: str, environ: Mapping[str, str], root: str) -> Iterator[Condition]:
    """The conditions about folders and what is installed.

    Args:
        mode: What is tuned.
        environ: The environment of the run.
        root: Root of the host.
    """
    if mode != MODES["gradient"]:
        yield _repository(mode, environ)
    yield _results(environ)
    yield _python(environ)
    yield _sourced(environ, root)


def _device(report: DeviceReport, environ: Mapping[str, str]) -> Optional[Device]:
    """The device by its logical id, as the adapter finds it; None if it is not here."""
    name = "ASCEND_DEVICE_ID" if environ.get("ASCEND_DEVICE_ID") else "DEVICE_ID"
    wanted = number(environ, name) or 0
    for one in report:
        own = one.logical_id if name == "ASCEND_DEVICE_ID" else one.physical_id
        if (environ.get(name) and own == wanted) or (not environ.get(name) and own is not None):
            return one
    return None


def _product(device: Optional[Device], mode: str) -> Condition:
    able = _ABLE[:1] if mode == MODES["subgraph"] else _ABLE
    name, needed = "product", ", ".join(able)
    if device is None or device.family is None:
        said = "Which product tunes is not known: no Ascend processor is seen here."
        return Condition(name, NOT_CHECKED, None, needed, "", said, _THERE)
    said = f"The device is {device.family}."
    todo = f"Tune on {' or '.join(able)}."
    if device.family in _ABLE:
        todo = "Tune operators: subgraphs cannot be tuned on A2 and A3."
    return judged(name, device.family in able, device.family, needed, "", said, todo)


def _one_user(report: DeviceReport, device: Optional[Device]) -> Condition:
    name, needed = ONE_USER, "nobody else on the device"
    if device is None:
        said = "Who uses the device is not known: no Ascend processor is seen here."
        return Condition(name, NOT_CHECKED, None, needed, "", said, _THERE)
    seen = Seen.of(report)
    others = [holder for holder in device.holders if not holder.own]
    if others:
        named = [
            f"process {one.pid} ({one_line(one.command, 60)})"
            + (f" of user {one.user}" if one.user else "")
            for one in others
        ]
        said = f"The device is held by {' and '.join(named)}."
        todo = "Wait until it is free, or choose another device with ASCEND_DEVICE_ID."
        return Condition(name, FAILS, f"{len(others)} on it", needed, "", said, todo)
    if seen.hidden or seen.blind:
        said = " ".join(["Not everybody who may hold the device can be seen.", *seen.blind])
        return Condition(name, NOT_CHECKED, None, needed, "", said, "Look as root.")
    return Condition(name, OK, "nobody", needed, "", "Nobody else is seen to hold the device.")


def _cores(asked: Asked) -> Condition:
    have, needed = asked.device_cores, asked.operator_cores
    asks = tuple(n for n in ("device_cores", "operator_cores") if getattr(asked, n) is None)
    if have is None or needed is None:
        said = "The cores of the device, and how many the operators use, cannot be measured."
        todo = f"Give {' and '.join(asks)}."
        return Condition("device cores", NOT_CHECKED, have, needed, "cores", said, todo, asks)
    said = f"The device has {have} cores, and an operator uses up to {needed}, as was said."
    todo = "Tune on a device with as many cores as the operators use."
    return judged("device cores", have >= needed, have, needed, "cores", said, todo)


def _device_memory(device: Optional[Device], asked: Asked) -> Condition:
    total = None if device is None else device.memory_total_mb
    used = 0 if device is None else device.memory_used_mb or 0
    free = None if total is None else (total - used) * _MB
    needed, name = asked.device_memory, DEVICE_MEMORY
    if free is None or needed is None:
        asks = ("device_memory",) if needed is None else ()
        have = "" if free is None else f" {shown(free, 'bytes')} of it are free."
        said = f"Device memory depends on the model and how far it is overcommitted.{have}"
        todo = "Give device_memory." if asks else _THERE
        return Condition(name, NOT_CHECKED, free, needed, "bytes", said, todo, asks)
    said = f"{shown(free, 'bytes')} of the device's memory are free."
    todo = "Tune with a smaller batch, or on a device with more memory."
    return judged(name, free >= needed, free, needed, "bytes", said, todo)


def _repository(mode: str, environ: Mapping[str, str]) -> Condition:
    """The manual wants TUNE_BANK_PATH to be there, readable, writable and executable."""
    found = repository_of(mode, environ)
    needed = "existing, rwx" if found.variable == BANK else "rwx, or can be made"
    place = found.base
    if found.variable != BANK:
        while not os.path.exists(place) and os.path.dirname(place) != place:
            place = os.path.dirname(place)
    fault = fault_of(place)
    origin = f"which {found.variable} names" if found.variable else "where HOME leads to"
    said = f"The tuned repository will be {found.path}."
    if fault is None:
        return Condition("repository", OK, found.path, needed, "", said)
    said = f"{place}, {origin}, {fault.said}; AOE ends with an error. {said}"
    return Condition("repository", FAILS, place, needed, "", said, fault.todo)


def _results(environ: Mapping[str, str]) -> Condition:
    """Result files go to ASCEND_WORK_PATH, else to the working directory."""
    given = environ.get("ASCEND_WORK_PATH")
    path = os.path.abspath(given or ".")
    fault = fault_of(path)
    origin = "ASCEND_WORK_PATH" if given else "the working directory"
    said = f"Result files will be in {path}, {origin}."
    needed = "existing, rwx"
    if fault is None:
        return Condition("result folder", OK, path, needed, "", said)
    said = f"{said} It {fault.said}."
    return Condition("result folder", FAILS, path, needed, "", said, fault.todo)


def _python(environ: Mapping[str, str]) -> Condition:
    """AOE starts the first python3 of the PATH; the manual's example is 3.7.5."""
    name, needed = "Python", "3.7 or later"
    path = find("python3", environ, "/", ())
    if path is None:
        todo = "Put the folder of Python, as in /usr/local/python3.7.5/bin, in front of PATH."
        said = "There is no python3 on PATH, on which AOE depends."
        return Condition(name, FAILS, None, needed, "", said, todo)
    answer = ask([path, "--version"], environ)
    match = _VERSION.search(f"{answer.text}\n{answer.errors}")
    if match is None:
        said = answer.problem or f"{path} does not say its version."
        return Condition(name, NOT_CHECKED, None, needed, "", said, "Look at that Python.")
    found = match.group()[len("Python ") :]
    enough = (int(match[1]), int(match[2])) >= _OLDEST
    said = f"The first python3 on PATH is {path}, Python {found}."
    todo = "Put a newer Python in front of PATH and LD_LIBRARY_PATH."
    return judged(name, enough, found, needed, "", said, todo)


def _sourced(environ: Mapping[str, str], root: str) -> Condition:
    findings = list(check_sourced(environ, root))
    said = " ".join(finding.said for finding in findings)
    wrong = [finding for finding in findings if finding.severity != FOUND_OK]
    measured = "sourced"
    if wrong:
        measured = "not" if any(one.severity == ERROR for one in wrong) else "in part"
    todo = " ".join(finding.hint for finding in wrong if finding.hint)
    return judged("set_env.sh", not wrong, measured, "sourced", "", said, todo)

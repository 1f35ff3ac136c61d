"""TensorFlow and the vendor's packages as a Python has them, looked at in a child process.

Importing them takes seconds, starts threads, and can end the process that tries. Nothing is
initialised (adapter_behaviour.md, "Traps of the Python package": plain imports patch nothing).

Source: launch_facts.md, E (E40002, E40020: Python version, missing module); the vendor's
installation guide, running dependencies: TensorFlow 1.15 goes with Python 3.7.5 to 3.7.11.
"""

import json
import re
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Tuple

from ascend_session.findings import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.program import run_program
from ascend_session.text import one_line

_CHECK, _ADAPTER = "tensorflow", "adapter"
_MARK = "ascend-session-found "
_WANTED = "1.15"
_LONGEST = 300  # characters of an exception
_DOCUMENTED = ((3, 7, 5), (3, 7, 11))

# Each line is said at once, for the next import may end the process.
_PROGRAM = """
import contextlib, io, json, os, platform, sys
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
def say(name, value):
    print("\\n" + MARK + json.dumps([name, value]), flush=True)
def version(name):
    try:
        try:
            from importlib.metadata import version
        except ImportError:
            from importlib_metadata import version
        return version(name)
    except Exception:
        return None
def look(name, modules):
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            for module in modules:
                __import__(module)
    except BaseException as error:
        lines = [line.strip() for line in output.getvalue().splitlines() if line.strip()]
        say(name + " error", "; ".join(lines + [type(error).__name__ + ": " + str(error)]))
    else:
        found = getattr(sys.modules[modules[0]], "__version__", None)
        say(name, found if isinstance(found, str) else version(name) or "")
say("python", platform.python_version())
say("executable", sys.executable)
look("tensorflow", ["tensorflow"])
if sys.argv[1:] == ["adapter"]:
    look("npu_bridge", ["npu_bridge", "npu_bridge.estimator.npu_ops"])
    look("hccl", ["hccl", "hccl.manage.api"])
say("done", True)
"""


class Interpreter(NamedTuple):
    """What a Python has.

    Attributes:
        program: The path that it was started by.
        python: Its version; None if it said nothing.
        found: ``tensorflow``, ``npu_bridge`` and ``hccl`` with their versions, empty if unknown;
            none for what could not be imported.
        failed: The same names, with the reason why they could not be imported.
        problem: Why the look did not come to its end, as a sentence; None if it did.
    """

    program: str
    python: Optional[str]
    found: Mapping[str, str]
    failed: Mapping[str, str]
    problem: Optional[str]


def look_into(
    program: str, environ: Mapping[str, str], with_adapter: bool, timeout: float
) -> Interpreter:
    """Start the Python and has it import things; never raises.

    Args:
        program: Its path.
        environ: The environment that it runs in.
        with_adapter: Whether the vendor's packages are looked at.
        timeout: Seconds until it is ended, with all its children.
    """
    text = f"MARK = {_MARK!r}\n{_PROGRAM}"
    words = [program, "-c", text, *(["adapter"] if with_adapter else [])]
    answer = run_program(words, environ, timeout, name=f"{program} -c ...")
    facts = dict(_facts(answer.text))
    parts = ("tensorflow", "npu_bridge", "hccl")
    problem = answer.problem
    if problem is None and not facts.get("done"):
        problem = f"{program} did not say what it has."
    return Interpreter(
        program=program,
        python=str(facts["python"]) if "python" in facts else None,
        found={name: str(facts[name]) for name in parts if name in facts},
        failed={
            name: one_line(str(facts[f"{name} error"]), _LONGEST)
            for name in parts
            if f"{name} error" in facts
        },
        problem=problem,
    )


def check_interpreter(seen: Interpreter, on_devices: bool) -> Iterator[Finding]:
    """Judge what a Python has.

    Args:
        seen: What it has.
        on_devices: Whether graphs are to run on devices.
    """
    if seen.problem:
        yield Finding(ERROR if seen.python is None else WARNING, seen.problem, rule=_CHECK)
    if "tensorflow" in seen.failed:
        message = f"{seen.program} cannot import TensorFlow: {seen.failed['tensorflow']}"
        hint = "Install it for this Python, or give the Python that has it."
        yield Finding(ERROR, message, hint, rule=_CHECK)
    elif "tensorflow" in seen.found:
        message = (
            f"{seen.program} is Python {seen.python} with TensorFlow {seen.found['tensorflow']}."
        )
        yield Finding(OK, message, rule=_CHECK)
    elif seen.python is not None:
        message = "Whether TensorFlow can be imported: the look ended before."
        yield Finding(NOT_CHECKED, message, rule=_CHECK)
    if on_devices:
        yield from _together(seen)
        yield from _adapter(seen)


def _together(seen: Interpreter) -> Iterator[Finding]:
    tensorflow, adapter = seen.found.get("tensorflow", ""), seen.found.get("npu_bridge", "")
    wanted = _series(adapter) or _WANTED
    if tensorflow and _series(tensorflow) != wanted:
        message = f"npu_bridge is for TensorFlow {wanted}, but this Python has {tensorflow}."
        severity = ERROR if adapter else WARNING
        yield Finding(
            severity, message, f"Install TensorFlow {wanted}, or its adapter.", rule=_CHECK
        )
    python = _version_numbers(seen.python or "")
    if _series(tensorflow) == "1.15" and python and not _DOCUMENTED[0] <= python <= _DOCUMENTED[1]:
        message = f"The vendor names Python 3.7.5 to 3.7.11 for TensorFlow 1.15, not {seen.python}."
        yield Finding(INFO if python[:2] == (3, 7) else WARNING, message, rule=_CHECK)


def _adapter(seen: Interpreter) -> Iterator[Finding]:
    for name in ("npu_bridge", "hccl"):
        if name in seen.failed:
            message = f"{seen.program} cannot import {name}: {seen.failed[name]}"
            hint = (
                "Source the toolkit's set_env.sh and install the vendor's wheel: pip install "
                "--no-index --find-links DIR npu_bridge."
            )
            yield Finding(ERROR, message, hint, rule=_ADAPTER)
        elif name not in seen.found and seen.python is not None:
            yield Finding(NOT_CHECKED, f"Whether {name} can be imported.", rule=_ADAPTER)
    if not seen.failed and {"npu_bridge", "hccl"} <= set(seen.found):
        shown = f" {seen.found['npu_bridge']}" if seen.found["npu_bridge"] else ""
        yield Finding(OK, f"npu_bridge{shown} and hccl can be imported.", rule=_ADAPTER)


def _facts(text: str) -> Iterator[Tuple[str, Any]]:
    for line in text.splitlines():
        if line.startswith(_MARK):
            try:
                name, value = json.loads(line[len(_MARK) :])
            except (ValueError, TypeError, RecursionError):
                continue
            yield str(name), value


def _series(version: str) -> str:
    return ".".join(version.lstrip("v").split(".")[:2])


def _version_numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,4}", version)[:3])

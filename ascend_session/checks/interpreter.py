"""Check which TensorFlow and which of the vendor's packages a Python can import.

The imports happen in a child process: they take seconds, start threads, and can end the process.
They initialise and patch nothing (guides/facts/process.md#importing-npu_bridge).

Sources: guides/facts/failures.md#interpreter-and-packages; the vendor's installation guide, page
"Runtime Dependencies" (hiascend.com, CANNCommunityEdition 9.1.0, instg_0045; TensorFlow 1.15 goes
with Python 3.7.5 to 3.7.11).
"""

import contextlib
import json
import re
import sys
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from ascend_session.findings import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.program import run_program
from ascend_session.requirements import VENDOR_WHEEL_COMMAND, hint_for_import_error
from ascend_session.text import one_line

# The Python packages on that page; the page does not tell which of them tbe imports.
_RUNTIME_DEPENDENCIES = (
    "numpy, decorator, sympy, cffi, attrs, cython, pyyaml, pathlib2, protobuf, scipy, requests, "
    "psutil and absl-py"
)
TENSORFLOW, _ADAPTER, _COMPILER = "tensorflow", "adapter", "operator compiler"
_MARK = "ascend-session-found "
_USUAL_SERIES = "1.15"  # TensorFlow's, if the adapter does not tell its own
_LONGEST_ERROR = 300  # characters of an exception
_OLDEST, _NEWEST = (3, 7, 5), (3, 7, 11)

# Each line is flushed at once, because the next import may end the process.
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
        own = getattr(sys.modules[modules[0]], "__version__", None)
        say(name, own if isinstance(own, str) else version(name) or "")
say("python", platform.python_version())
say("executable", sys.executable)
look("tensorflow", ["tensorflow"])
if sys.argv[1:] == ["adapter"]:
    look("npu_bridge", ["npu_bridge", "npu_bridge.estimator.npu_ops"])
    look("hccl", ["hccl", "hccl.manage.api"])
    look("tbe", ["tbe"])
say("done", True)
"""


class Interpreter(NamedTuple):
    """A Python, and what it can import.

    Attributes:
        program: The path with which Python was started.
        python: The version of Python; None if it printed nothing.
        versions: ``{package: version}`` of ``tensorflow``, ``npu_bridge``, ``hccl`` and ``tbe``, as
            far as they can be imported; an unknown version is empty.
        errors: ``{package: reason}`` of those that cannot be imported.
        problem: Why the inspection is incomplete, as a sentence; None if it is complete.
    """

    program: str
    python: Optional[str]
    versions: Mapping[str, str]
    errors: Mapping[str, str]
    problem: Optional[str]


def inspect_interpreter(
    program: str, environ: Mapping[str, str], with_adapter: bool, timeout: float
) -> Interpreter:
    """Start a Python that imports the packages; never raises.

    Args:
        program: The path of Python.
        environ: The environment that it runs in.
        with_adapter: Whether to import the vendor's packages, too.
        timeout: Seconds after which Python and its children are killed.
    """
    text = f"MARK = {_MARK!r}\n{_PROGRAM}"
    words = [program, "-c", text, *(["adapter"] if with_adapter else [])]
    answer = run_program(words, environ, timeout, name=f"{program} -c ...")
    facts: Dict[str, Any] = {}
    for line in answer.text.splitlines():
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                name, value = json.loads(line[len(_MARK) :])
                facts[str(name)] = value
    problem = answer.problem
    if problem is None and not facts.get("done"):
        problem = f"{program} exited before it had listed its packages."
    parts = ("tensorflow", "npu_bridge", "hccl", "tbe")
    errors = {part: facts[f"{part} error"] for part in parts if f"{part} error" in facts}
    return Interpreter(
        program=program,
        python=str(facts["python"]) if "python" in facts else None,
        versions={part: str(facts[part]) for part in parts if part in facts},
        errors={part: one_line(str(error), _LONGEST_ERROR) for part, error in errors.items()},
        problem=problem,
    )


def check_interpreter(interpreter: Interpreter, on_devices: bool) -> Iterator[Finding]:
    """Check TensorFlow and, for devices, the vendor's packages.

    Args:
        interpreter: The Python and its packages.
        on_devices: Whether its graphs would run on devices.
    """
    program, python, versions, errors, problem = interpreter
    if problem:
        yield Finding(ERROR if python is None else WARNING, problem, rule=TENSORFLOW)
    if "tensorflow" in errors:
        message = f"{program} cannot import TensorFlow: {errors['tensorflow']}"
        release = _parse_numbers(python or "")[:2] or sys.version_info[:2]
        repair = hint_for_import_error(errors["tensorflow"], release)
        repair = repair.replace("pip install", f"{program} -m pip install", 1)
        hint = f"{repair.rstrip('.')}. Or choose another Python with --python."
        yield Finding(ERROR, message, hint, rule=TENSORFLOW)
    elif "tensorflow" in versions:
        message = f"{program} is Python {python} with TensorFlow {versions['tensorflow']}."
        yield Finding(OK, message, rule=TENSORFLOW)
    elif python is not None:
        message = "Python exited before TensorFlow was imported."
        yield Finding(NOT_CHECKED, message, rule=TENSORFLOW)
    if on_devices:
        tensorflow, adapter = versions.get("tensorflow", ""), versions.get("npu_bridge", "")
        yield from _check_versions(python or "", tensorflow, adapter)
        yield from _check_adapter(interpreter)


def _check_versions(python: str, tensorflow: str, adapter: str) -> Iterator[Finding]:
    """Check that adapter, TensorFlow and Python fit together; an unknown version is empty."""
    series = _parse_series(adapter) or _USUAL_SERIES
    if tensorflow and _parse_series(tensorflow) != series:
        message = f"npu_bridge is for TensorFlow {series}, but this Python has {tensorflow}."
        hint = f"Install TensorFlow {series}, or its adapter."
        yield Finding(ERROR if adapter else WARNING, message, hint, rule=TENSORFLOW)
    numbers = _parse_numbers(python)
    if _parse_series(tensorflow) == "1.15" and numbers and not _OLDEST <= numbers <= _NEWEST:
        message = f"The vendor supports TensorFlow 1.15 on Python 3.7.5 to 3.7.11, not on {python}."
        yield Finding(INFO if numbers[:2] == (3, 7) else WARNING, message, rule=TENSORFLOW)


def _check_adapter(interpreter: Interpreter) -> Iterator[Finding]:
    program, python, versions, errors, _ = interpreter
    for name in ("npu_bridge", "hccl"):
        if name in errors:
            message = f"{program} cannot import {name}: {errors[name]}"
            hint = (
                "Source the toolkit's set_env.sh and install the vendor's wheel: "
                f"{VENDOR_WHEEL_COMMAND}."
            )
            yield Finding(ERROR, message, hint, rule=_ADAPTER)
        elif name not in versions and python is not None:
            yield Finding(NOT_CHECKED, f"Python exited before {name} was imported.", rule=_ADAPTER)
    if "tbe" in errors:
        yield Finding(
            ERROR,
            f"{program} cannot import tbe, the operator compiler, so no graph can be compiled: "
            f"{errors['tbe']}",
            "Source the toolkit's set_env.sh, and install what is missing into this Python "
            f"(CANN needs {_RUNTIME_DEPENDENCIES}).",
            rule=_COMPILER,
        )
    elif "tbe" in versions:
        yield Finding(OK, "tbe, the operator compiler, can be imported.", rule=_COMPILER)
    elif python is not None:
        yield Finding(NOT_CHECKED, "Python exited before tbe was imported.", rule=_COMPILER)
    if not errors and {"npu_bridge", "hccl"} <= set(versions):
        adapter = " ".join(filter(None, ("npu_bridge", versions["npu_bridge"])))
        yield Finding(OK, f"{adapter} and hccl can be imported.", rule=_ADAPTER)


def _parse_numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,4}", version)[:3])


def _parse_series(version: str) -> str:
    return ".".join(version.lstrip("v").split(".")[:2])

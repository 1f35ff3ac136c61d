"""What to do about an exception that ends a script, where its own message does not say it."""

import linecache
import os
import re
import sys
from traceback import walk_tb
from typing import Any, Iterator, Mapping, Optional, Tuple

from ascend_session.requirements import VENDOR_WHEEL_COMMAND
from ascend_session.user_code import UserLine, is_user_file


def advise(error: BaseException, request: Mapping[str, str]) -> Optional[str]:
    """Give a sentence or two about what ends a script; None if the error says enough.

    Args:
        error: With its traceback.
        request: What the command was called with (`run_end.begin`).
    """
    return (
        _advise_on_environment(error)
        or _advise_on_packages(error, request)
        or _advise_on_tensorflow1(error)
    )


# The environment ---------------------------------------------------------------------------------

# What every rank of a launch has (launcher/environment.py), with a chief or without.
_SET_BY_LAUNCH = (
    *("RANK_ID", "RANK_SIZE", "DEVICE_ID", "DEVICE_INDEX", "ASCEND_DEVICE_ID"),
    *("JOB_ID", "LOCAL_RANK", "LOCAL_SIZE"),
)

_READS_VARIABLE = re.compile(
    rf"(?:getenv|environ\.get)\(\s*['\"]({'|'.join(_SET_BY_LAUNCH)})['\"]\s*\)"
)


def _advise_on_environment(error: BaseException) -> Optional[str]:
    """Name the variable of a rank that the script reads without a default, and who sets it."""
    for file, line, name in _find_reads(error):
        if name not in os.environ:
            return (
                f"{UserLine(file, line)} reads {name}, which is not set here. Start it with "
                "`ascend-session launch -n 1`, which sets it, as all variables of a rank."
            )
    return None


def _find_reads(error: BaseException) -> Iterator[Tuple[str, int, str]]:
    """Find where the script has read what the error is about: file, line, variable."""
    is_of_none = isinstance(error, (TypeError, AttributeError)) and "NoneType" in str(error)
    if not is_of_none and not isinstance(error, KeyError):
        return
    trace = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    frames = [(code.co_filename, line) for code, line in reversed(trace)]
    frames = [(file, line) for file, line in frames if is_user_file(file)]
    if isinstance(error, KeyError):  # os.environ's own, however the script writes the name
        # If the script put a plain dictionary there, this is no Python function.
        read_item = type(os.environ).__getitem__
        is_of_environ = trace[-1][0] is getattr(read_item, "__code__", None)
        if is_of_environ and frames and error.args[0] in _SET_BY_LAUNCH:
            yield (*frames[0], error.args[0])
        return
    for file, line in frames:
        failing = linecache.getline(file, line)
        for name in _READS_VARIABLE.findall(failing):
            yield file, line, name
        for number, text in enumerate(linecache.getlines(file), 1):
            # The value may have been kept in a variable before.
            target, _, value = text.partition("=")
            words = re.escape(target.strip())
            if words and re.search(rf"(?<![\w.]){words}(?!\w)", failing):
                for name in _READS_VARIABLE.findall(value):
                    yield file, number, name


# The vendor's packages ---------------------------------------------------------------------------


def _advise_on_packages(error: BaseException, request: Mapping[str, str]) -> Optional[str]:
    """Tell who needs the vendor's packages, where they are missing and are not replaced."""
    is_replaced = request.get("replaces_vendor", "yes") == "yes"
    if is_replaced or not isinstance(error, ModuleNotFoundError):
        return None
    package = str(error.name).partition(".")[0]
    if package not in ("npu_bridge", "hccl"):
        return None
    return (
        f"The npu backend was chosen because {request.get('reason')}, but {package} cannot be "
        f"found by this Python ({sys.executable}). Source the toolkit's set_env.sh and install the "
        f"vendor's wheel: {VENDOR_WHEEL_COMMAND}. With --backend stub the script runs on the CPU, "
        "without them."
    )


# TensorFlow 1 ------------------------------------------------------------------------------------

_ATTRIBUTE = re.compile(
    r"module '(?:tensorflow|tensorflow_core|tensorflow\._api\.v2)((?:\.\w+)*)' "
    r"has no attribute '(\w+)'"
)
_MODULE = re.compile(r"No module named '(tensorflow\.\w+(?:\.\w+)*)'")
_GRAPH_ONLY = re.compile(r"(eager execution|RuntimeError: The Session graph is empty)")

_OLD = "Run it with Python 3.7 and TensorFlow 1.15, for which such scripts are written"
_RENAMED = (
    "or write `import tensorflow.compat.v1 as tf` and `tf.disable_v2_behavior()` for "
    "`import tensorflow as tf`"
)


def _advise_on_tensorflow1(error: BaseException) -> Optional[str]:
    """Give a sentence if it is TensorFlow 1 that the script misses; None for other errors."""
    tensorflow: Any = sys.modules.get("tensorflow")
    version = str(getattr(tensorflow, "__version__", ""))
    if not version or version.startswith("1."):
        return None
    here = f"this is TensorFlow {version}"
    missing = _missing_name(error, tensorflow)
    if missing is not None:
        name, has_new_name = missing
        remedy = f"{_OLD}, {_RENAMED}." if has_new_name else f"{_OLD}: TensorFlow 2 has not got it."
        return f"{_place(error)} needs {name}, which is TensorFlow 1's; {here}. {remedy}"
    if isinstance(error, (RuntimeError, ValueError)) and _GRAPH_ONLY.search(str(error)):
        return (
            f"{_place(error)} builds a graph, but eager execution is on; {here}. Call "
            "`tf.compat.v1.disable_v2_behavior()` before anything is built."
        )
    return None


def _missing_name(error: BaseException, tensorflow: Any) -> Optional[Tuple[str, bool]]:
    """Give the name that TensorFlow 2 has not got, and whether ``tensorflow.compat.v1`` has it."""
    if isinstance(error, AttributeError):
        match = _ATTRIBUTE.search(str(error))
        if match is not None:
            inside = [part for part in match.group(1).split(".") if part not in ("", "_api", "v2")]
            parts = [*inside, match.group(2)]
            value = tensorflow
            for part in ("compat", "v1", *parts):
                value = getattr(value, part, None)
            return ".".join(["tf", *parts]), value is not None
    if isinstance(error, ModuleNotFoundError):
        match = _MODULE.search(str(error))
        if match is not None:
            return match.group(1), False
    return None


def _place(error: BaseException) -> str:
    """Give file and line of the script's last frame before TensorFlow's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if "tensorflow" in str(trace.tb_next.tb_frame.f_globals.get("__name__", "")):
            break
        trace = trace.tb_next
    if trace is None:
        return "The script"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"

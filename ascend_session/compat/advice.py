"""Advice on the exception that ends a script, where its own message is not enough."""

import linecache
import os
import re
import sys
from traceback import walk_tb
from typing import Any, Iterator, Optional, Tuple

from ascend_session.compat.finder import RunRequest
from ascend_session.requirements import OTHER_ADAPTER, VENDOR_WHEEL_COMMAND
from ascend_session.user_code import UserLine, user_lines


def advise(error: BaseException, request: RunRequest) -> Optional[str]:
    """Return advice on the exception that ends a script; None if its own message is enough.

    Args:
        error: The exception, with its traceback.
        request: What is asked of the run.
    """
    return (
        _advise_on_environment(error)
        or _advise_on_packages(error, request)
        or _advise_on_message(error)
        or _advise_on_tensorflow1(error)
    )


# The environment ---------------------------------------------------------------------------------

# Variables of every rank of a launch (launcher/plan/local_ranks.py)
_SET_BY_LAUNCH = (
    *("RANK_ID", "RANK_SIZE", "DEVICE_ID", "DEVICE_INDEX", "ASCEND_DEVICE_ID"),
    *("JOB_ID", "LOCAL_RANK", "LOCAL_SIZE"),
)

_READS_VARIABLE = re.compile(
    rf"(?:getenv|environ\.get)\(\s*['\"]({'|'.join(_SET_BY_LAUNCH)})['\"]\s*\)"
)


def _advise_on_environment(error: BaseException) -> Optional[str]:
    """Name a variable of ranks that the script reads although it is not set."""
    for line, name in _find_reads(error):
        if name not in os.environ:
            return (
                f"{line} reads {name}, which is not set here. Start it with "
                "`ascend-session launch -n 1`, which sets it, as all variables of a rank."
            )
    return None


def _find_reads(error: BaseException) -> Iterator[Tuple[UserLine, str]]:
    """Yield lines at which the script may have read the value of the error, and the variables."""
    is_of_none = isinstance(error, (TypeError, AttributeError)) and "NoneType" in str(error)
    if not is_of_none and not isinstance(error, KeyError):
        return
    trace = list(walk_tb(error.__traceback__))
    lines = user_lines(reversed(trace))
    if isinstance(error, KeyError):  # of os.environ, no matter how the script writes that
        # The code is None if the script put a plain dictionary there.
        read_item = type(os.environ).__getitem__
        is_of_environ = trace[-1][0].f_code is getattr(read_item, "__code__", None)
        if is_of_environ and lines and error.args[0] in _SET_BY_LAUNCH:
            yield lines[0], error.args[0]
        return
    for line in lines:
        failing = linecache.getline(line.file, line.number)
        for name in _READS_VARIABLE.findall(failing):
            yield line, name
        for number, text in enumerate(linecache.getlines(line.file), 1):
            # The failing line may use a Python variable that another line has set.
            target, _, value = text.partition("=")
            words = re.escape(target.strip())
            if words and re.search(rf"(?<![\w.]){words}(?!\w)", failing):
                for name in _READS_VARIABLE.findall(value):
                    yield UserLine(line.file, number), name


# The vendor's packages ---------------------------------------------------------------------------


def _advise_on_packages(error: BaseException, request: RunRequest) -> Optional[str]:
    """Say how to get the vendor's packages if they are missing and are not replaced."""
    package = ""
    if isinstance(error, ModuleNotFoundError):
        package = str(error.name).partition(".")[0]
    if package == "npu_device":
        return OTHER_ADAPTER
    if request.replaces_vendor or package not in ("npu_bridge", "hccl"):
        return None
    return (
        f"The npu backend was chosen because {request.reason}, but {package} cannot be "
        f"found by this Python ({sys.executable}). Source the toolkit's set_env.sh and install the "
        f"vendor's wheel: {VENDOR_WHEEL_COMMAND}. With --backend stub the script runs on the CPU, "
        "without them."
    )


# The graph ---------------------------------------------------------------------------------------

# What TensorFlow says, and what to do; {place} is the operator or the line, {found} what matched
_ON_MESSAGES = (
    (  # TensorFlow computes NCHW on accelerators only.
        re.compile(r"only supports? (?:the )?NHWC|NHWC tensor format on the CPU"),
        "{place} is in NCHW, which TensorFlow cannot compute on this CPU; that does not concern "
        "a device. To run it here, give convolutions, poolings and batch normalizations "
        "data_format='NHWC' ('channels_last' in Keras and tf.layers), and the images in that "
        "order.",
    ),
    (  # The vendor hides the variables of a loss scale from Keras.
        re.compile(r"uninitialized value (?:\S*/)?(loss_scale|good_steps|bad_steps)\b"),
        "Nothing has initialised {found} of ExponentialUpdateLossScaleManager. Keras "
        "initialises only what optimizer.variables() gives, and the vendor's optimizers "
        "(npu_optimizer.py) leave the loss scale out there, on a device, too. After model.compile, "
        "write `tf.keras.backend.get_session().run(tf.variables_initializer(tf.global_variables("
        "'loss_scale|good_steps|bad_steps')))`; without Keras, run the initialisers after the "
        "manager is made.",
    ),
)


def _advise_on_message(error: BaseException) -> Optional[str]:
    """Say what to do about an error that its message identifies."""
    for pattern, advice in _ON_MESSAGES:
        match = pattern.search(str(error))
        if match is not None:
            operation = getattr(error, "op", None)
            place = _place(error) if operation is None else f"The operator {operation.name!r}"
            return advice.format(place=place, found=match.group(match.lastindex or 0))
    return None


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
    """Say what to do if the script needs TensorFlow 1."""
    tensorflow: Any = sys.modules.get("tensorflow")
    version = str(getattr(tensorflow, "__version__", ""))
    if not version or version.startswith("1."):
        return None
    here = f"this is TensorFlow {version}"
    missing = _missing_name(error, tensorflow)
    if missing is not None:
        name, has_new_name = missing
        remedy = (
            f"{_OLD}, {_RENAMED}." if has_new_name else f"{_OLD}: TensorFlow 2 does not have it."
        )
        return f"{_place(error)} needs {name}, which is TensorFlow 1's; {here}. {remedy}"
    if isinstance(error, (RuntimeError, ValueError)) and _GRAPH_ONLY.search(str(error)):
        return (
            f"{_place(error)} builds a graph, but eager execution is on; {here}. Call "
            "`tf.compat.v1.disable_v2_behavior()` before anything is built."
        )
    return None


def _missing_name(error: BaseException, tensorflow: Any) -> Optional[Tuple[str, bool]]:
    """Return the name that TensorFlow 2 lacks, and whether ``tensorflow.compat.v1`` has it."""
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
    """Return file and line of the script's innermost frame."""
    lines = user_lines(reversed(list(walk_tb(error.__traceback__))))
    return str(lines[0]) if lines else "The script"

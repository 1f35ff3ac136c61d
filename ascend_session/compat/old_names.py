"""What to say when a script for TensorFlow 1 meets TensorFlow 2."""

import re
import sys
from typing import Any, List, Optional, Tuple

__all__ = ["advice"]

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


def advice(error: BaseException) -> Optional[str]:
    """A sentence if it is TensorFlow 1 that the script misses; None for other errors."""
    tensorflow: Any = sys.modules.get("tensorflow")
    version = str(getattr(tensorflow, "__version__", ""))
    if not version or version.startswith("1."):
        return None
    here = f"this is TensorFlow {version}"
    name = _missing(error)
    if name is not None:
        which, has_new_name = name
        remedy = f"{_OLD}, {_RENAMED}." if has_new_name else f"{_OLD}: TensorFlow 2 has not got it."
        return f"{_place(error)} needs {which}, which is TensorFlow 1's; {here}. {remedy}"
    if isinstance(error, (RuntimeError, ValueError)) and _GRAPH_ONLY.search(str(error)):
        return (
            f"{_place(error)} builds a graph, but eager execution is on; {here}. Call "
            "`tf.compat.v1.disable_v2_behavior()` before anything is built."
        )
    return None


def _missing(error: BaseException) -> Optional[Tuple[str, bool]]:
    """The name that TensorFlow 2 has not got, and whether ``tensorflow.compat.v1`` has it."""
    if isinstance(error, AttributeError):
        found = _ATTRIBUTE.search(str(error))
        if found is None:
            return None
        inside = [part for part in found.group(1).split(".") if part not in ("", "_api", "v2")]
        parts = [*inside, found.group(2)]
        return ".".join(["tf", *parts]), _is_in_v1(parts)
    if isinstance(error, ModuleNotFoundError):
        module = _MODULE.search(str(error))
        if module is not None:
            return module.group(1), False
    return None


def _is_in_v1(parts: List[str]) -> bool:
    found: Any = sys.modules.get("tensorflow")
    for part in ("compat", "v1", *parts):
        found = getattr(found, part, None)
    return found is not None


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if "tensorflow" in str(trace.tb_next.tb_frame.f_globals.get("__name__", "")):
            break
        trace = trace.tb_next
    if trace is None:
        return "The script"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"

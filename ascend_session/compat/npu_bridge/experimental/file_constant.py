"""``npu_bridge.experimental.file_constant``: a constant whose values are in a file.

Source: file_constant.py; ops/npu_ops.cc, FileConstant.
"""

from typing import Any

import numpy as np

from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.unavailable import refuse
from ascend_session.compat.vendor_modules import mirror

_TYPES = (
    *("float32", "float16", "int8", "int16", "uint16", "uint8"),
    *("int32", "int64", "uint32", "uint64", "bool", "float64"),
)


def file_constant(
    shape: Any, dtype: Any, file_path: Any = None, file_id: Any = None, name: Any = None
) -> Any:
    """The values of a binary file, read when the graph is built.

    Args:
        shape: A list of ints.
        dtype: Their type.
        file_path: The file, values one after the other as the machine has them in memory.
        file_id: A file that the graph engine knows by this name; there is none here.
        name: Of the operator.

    Raises:
        UnsupportedError: Without ``file_path``.
        TypeError: For a type that the operator does not take.
        ValueError: If the file has another number of values.
        OSError: If it cannot be read.
    """
    kind = tf.as_dtype(dtype)
    if kind.name not in _TYPES:
        raise TypeError(
            f"Value passed to parameter 'dtype' has DataType {kind.name} not in list of allowed "
            f"values: {', '.join(_TYPES)}"
        )
    if not file_path:
        raise refuse(
            "npu_bridge.experimental.file_constant.file_constant",
            f"file_id={file_id!r} is a file that only the graph engine knows",
            hint="Give file_path.",
        )
    values = np.fromfile(file_path, dtype=kind.as_numpy_dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if values.size != count:
        raise ValueError(
            f"{file_path} has {values.size} values of {kind.name}, but shape={list(shape)} has "
            f"{count}."
        )
    return tf.constant(values.reshape(shape), dtype=kind, name=name or "FileConstant")


__getattr__, __all__ = mirror(globals(), "gen_npu_cpu_ops")

"""The writers of ``tf.contrib.summary`` in a graph, which host calls write with."""

from typing import Any, List, Sequence

from tensorflow.python.ops import summary_ops_v2

__all__ = ["flush_operations", "initializers"]


def initializers() -> List[Any]:
    """The operations that open the default graph's writers."""
    return list(summary_ops_v2.summary_writer_initializer_op())


def flush_operations(opening: Sequence[Any]) -> List[Any]:
    """For each of them an operation that writes what its writer still has."""
    return [summary_ops_v2.flush(writer=operation.inputs[0]) for operation in opening]

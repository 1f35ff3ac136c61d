"""Broadcast the global variables of one rank to all ranks.

All of ``tf.global_variables()`` are broadcast, trainable or not, with their own dtype (bool as
uint8). So after a restore on one rank slots, averages, the global step and the loss scale are equal
on all ranks, too. The vendor's function broadcasts trainable variables only (npu_hook.py,
``broadcast_global_variables``).

Local variables, tables and iterators are not broadcast. A dtype that HCCL does not support, such as
string, is an error. All ranks must have the same variables; the hook compares them first.
"""

import numbers
import zlib
from typing import Any, Dict, List

from ascend_session import hccl
from ascend_session.backends._tensorflow import graph_or_default, tf1
from ascend_session.errors import CollectiveError, JobError, UnsupportedError
from ascend_session.hccl._arguments import MOVED
from ascend_session.session.conditions import BROADCAST, warn_of_missed_variables
from ascend_session.session.graphs import job_size, note_size
from ascend_session.training.step_hook import StepHook


def broadcast_global_variables(root_rank: int) -> Any:
    """Add an operation that sets the global variables of all ranks to the root's values.

    Run it after all ranks have initialised their variables. Keras does so in ``get_session``:
    ``tf.keras.backend.get_session().run(broadcast_global_variables(0))``.

    Args:
        root_rank: The rank whose values are broadcast, from 0.

    Returns:
        A ``tf.Operation``; in a job of one rank it does nothing.

    Raises:
        JobError: If there is no such rank, or the number of ranks is unknown.
        UnsupportedError: For a variable of a dtype that HCCL does not support, and in a job with
            parameter servers.
        LifecycleError: Under eager execution.
    """
    tf = tf1()
    graph = graph_or_default(None)
    size = job_size("broadcast_global_variables")
    _check_root(root_rank, size)
    note_size(graph, size)
    if size == 1:
        return tf.no_op(name="broadcast_global_variables")
    by_dtype: Dict[str, List[Any]] = {}
    for variable in tf.global_variables():
        by_dtype.setdefault(_carrying_dtype(variable), []).append(variable)
        graph.add_to_collection(BROADCAST, variable.name)
    with tf.name_scope("broadcast_global_variables"):
        assignments = []
        # One operation per dtype, as on the device, which merges variables of one dtype.
        for number, (dtype, variables) in enumerate(by_dtype.items()):
            values = [tf.cast(variable.read_value(), dtype) for variable in variables]
            received = hccl.broadcast(values, root_rank, fusion=2, fusion_id=number)
            assignments += [
                variable.assign(tf.cast(value, variable.dtype.base_dtype)).op
                for variable, value in zip(variables, received)
            ]
        return tf.group(*assignments)


def _check_root(root_rank: Any, size: int) -> None:
    is_whole = isinstance(root_rank, numbers.Integral) and not isinstance(root_rank, bool)
    if not is_whole or not 0 <= root_rank < size:
        ranks = f"0 to {size - 1}" if size > 1 else "0 alone"
        raise JobError(f"root_rank={root_rank!r} is not a rank of this job, which has {ranks}.")


def _carrying_dtype(variable: Any) -> str:
    """Return the name of the dtype in which a variable is sent."""
    dtype = str(variable.dtype.base_dtype.name)
    if dtype == "bool":
        return "uint8"
    if dtype not in MOVED:
        raise UnsupportedError(
            f"The variable {variable.name!r} is of dtype {dtype}, which HCCL does not carry.",
            hint="Keep it out of the global variables if each rank may have its own: "
            "collections=[tf.GraphKeys.LOCAL_VARIABLES].",
        )
    return dtype


class BroadcastGlobalVariablesHook(StepHook):
    """Broadcasts the global variables once, after a session has been created.

    For ``MonitoredTrainingSession`` and estimators. All ranks must have initialised their variables
    by then, as they do if each is the chief of its own session. Only the root needs to restore a
    checkpoint. See `broadcast_global_variables` for what is broadcast.

    Args:
        root_rank: The rank whose values are broadcast, from 0.
    """

    def __init__(self, root_rank: int = 0) -> None:
        self._root_rank = root_rank
        self._operation: Any = None
        self._fingerprints: Any = None

    def begin(self) -> None:
        """Add the operations, before the graph is finalized."""
        super().begin()
        size = job_size("BroadcastGlobalVariablesHook")
        self._operation = broadcast_global_variables(self._root_rank)
        self._fingerprints = None
        if size > 1:
            with tf1().name_scope("broadcast_global_variables"):
                self._fingerprints = hccl.allgather(tf1().constant([_fingerprint()], "int64"), size)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Compare the ranks' variables, then broadcast.

        Raises:
            CollectiveError: If a rank has other variables; on a device it would hang.

        Warns:
            AscendConfigWarning: If a later hook has added variables that are trained.
        """
        if self._fingerprints is None:
            return
        if session.graph.finalized:
            warn_of_missed_variables(session.graph)
        fingerprints = session.run(self._fingerprints)
        root_digest, root_count = fingerprints[self._root_rank]
        counts = [
            f"rank {rank} has {count}"
            for rank, (digest, count) in enumerate(fingerprints)
            if digest != root_digest
        ]
        if counts:
            raise CollectiveError(
                f"The ranks have different global variables: rank {self._root_rank} has "
                f"{root_count}, {', '.join(counts)}; names, dtypes and shapes must be equal.",
                hint="Build the same graph on all ranks; make a variable of one rank a local "
                "variable.",
            )
        session.run(self._operation)


def _fingerprint() -> List[int]:
    """Return a checksum of the global variables' names, dtypes and shapes, and their number."""
    variables = tf1().global_variables()
    lines = [
        f"{variable.name} {variable.dtype.base_dtype.name} {variable.shape}"
        for variable in variables
    ]
    return [zlib.crc32("\n".join(lines).encode()), len(variables)]

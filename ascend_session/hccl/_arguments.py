"""Check the arguments of the functions of `ascend_session.hccl`.

The vendor's operators or HCCL would refuse the same arguments, but often only when the graph runs.
A wrong type raises TypeError and a wrong value ValueError, as for attributes of TensorFlow's
operators. Ranks and sizes are checked as far as they are known while the graph is built: before the
system is open only those of the job, from variables.

Sources: hccl_ops.cc (types of each operator); the documentation of hccl_ops (8 GB, variables);
HCCL's verifiers (hcom_ops: HcomAllReduce and the others; hcom_op_utils.cc: GetSrTag, GetDestRank,
GetSrcRank, GetRoot, and the types that it can broadcast; param_check.cc); hccl/manage/api.py.
"""

import contextlib
import math
import numbers
import os
from typing import Any, Dict, List, Optional, Sequence

from ascend_session.backends._tensorflow import VARIABLES, tf1
from ascend_session.cluster.schedulers import read_identity
from ascend_session.errors import CollectiveError, LifecycleError, warn
from ascend_session.session.graphs import graph_backend
from ascend_session.session.system import current_system
from ascend_session.text import is_writable
from ascend_session.vendor import WORLD_GROUP

REDUCED = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
MULTIPLIED = ("int8", "int32", "int64", "float16", "float32")  # for prod, on any product
MOVED = (*REDUCED, "uint8", "uint16", "uint32", "uint64", "float64")
BROADCAST = (*MOVED, "bool")

_REDUCTIONS = ("sum", "prod", "max", "min")
_FUSIONS = {0: "no fusion", 1: "by the split of the gradients", 2: "with others of its fusion_id"}

_MOST_BYTES = 8 * 1024**3
_LARGEST_INT32 = 2**31 - 1  # HCCL reads fusion ids and tags as int32
_MOST_RANKS = 32768
_LONGEST_NAME = 127  # bytes; 128 with the terminating zero

_READS = ("Identity", "ReadVariableOp")  # operators that read variables


class Arguments:
    """Checks the arguments of a function about groups and ranks.

    Args:
        call: The function's name, for messages.
        group: The group's name, which the constructor checks.
    """

    def __init__(self, call: str, group: Any) -> None:
        self.call = call
        if not isinstance(group, str):
            raise self.type_error(f"group must be a str, this is {group!r}.")
        if not is_writable(group, strict=True):
            raise self.value_error(f"the group's name {group!r} cannot be written as UTF-8.")
        size_bytes = len(group.encode("utf-8"))
        if not 1 <= size_bytes <= _LONGEST_NAME:
            length = f"{group[:20]!r}... has {size_bytes}." if group else "this one is empty."
            raise self.value_error(f"a group's name has 1 to {_LONGEST_NAME} bytes, {length}")
        self.group = group

    def type_error(self, text: str) -> TypeError:
        return TypeError(f"hccl.{self.call}: {text}")

    def value_error(self, text: str) -> ValueError:
        return ValueError(f"hccl.{self.call}: {text}")

    def integer(self, name: str, value: Any) -> int:
        """Return a whole number as an int."""
        if not isinstance(value, numbers.Integral):
            raise self.type_error(f"{name} must be an int, this is {value!r}.")
        return int(value)

    def integer_in(self, allowed: range, name: str, value: Any, reason: str) -> int:
        """Return a whole number in a range as an int; ``reason`` ends the error's message."""
        number = self.integer(name, value)
        if number not in allowed:
            raise self.value_error(f"{name}={number} {reason}")
        return number

    def rank(self, name: str, value: Any) -> int:
        """Return a rank as an int."""
        reason = "is not a rank: ranks are numbered from 0."
        return self.integer_in(range(_MOST_RANKS), name, value, reason)

    def check_not_world(self) -> None:
        """Refuse the group of all ranks, which cannot be created or destroyed."""
        if self.group == WORLD_GROUP:
            raise self.value_error(
                f"{WORLD_GROUP!r} is the group of all ranks, which exists while the system is "
                "open. Use another name."
            )

    def new_group_ranks(self, rank_num: Any, rank_ids: Any) -> List[int]:
        """Return the ranks in the job of a new group."""
        if isinstance(rank_ids, (str, bytes)) or not isinstance(rank_ids, Sequence):
            raise self.type_error(f"rank_ids must be a list of ranks, this is {rank_ids!r}.")
        ranks = [self.rank("a rank in rank_ids", rank) for rank in rank_ids]
        number = self.integer("rank_num", rank_num)
        if number != len(ranks) or not ranks:
            raise self.value_error(
                f"rank_num={number}, but rank_ids has {len(ranks)}: {ranks}. A group has at least "
                "one rank."
            )
        twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
        if twice:
            raise self.value_error(f"rank_ids={ranks} names {twice} more than once.")
        return ranks


class OperatorArguments(Arguments):
    """Checks the arguments of an operator, and adds it to the default graph.

    Each method checks an argument and adds it to ``settings``.

    Attributes:
        settings: The checked arguments by name, except for exchanged tensors.

    Raises:
        LifecycleError: Under eager execution.
    """

    def __init__(self, call: str, group: Any) -> None:
        if tf1().executing_eagerly():
            raise LifecycleError(
                f"hccl.{call} adds an operator to a graph, but eager execution is on here.",
                hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before "
                "building the model.",
            )
        super().__init__(call, group)
        self.settings: Dict[str, Any] = {"group": group}

    def add_operator(self, *operands: Any) -> Any:
        """Add the operator of the backend for which the graph is built."""
        return getattr(graph_backend().operators, self.call)(*operands, **self.settings)

    @property
    def size(self) -> Optional[int]:
        """The number of the group's ranks; None if that is not known yet."""
        if self.group == WORLD_GROUP and current_system() is None:
            size = read_identity(os.environ).size
            return None if size is None else size.value
        return self._ask_system("size")

    def _ask_system(self, what: str) -> Optional[int]:
        """Return this process's ``rank`` in the group, or its ``size``; None if not known yet."""
        system = current_system()
        if system is None:
            return None
        if self.group == WORLD_GROUP:
            return int(getattr(system, what))
        with contextlib.suppress(CollectiveError):  # it may be created before the graph runs
            return int(getattr(system.graph_backend.groups, what)(self.group))
        return None

    def reduction(self, value: Any) -> None:
        """Check the name of a reduction."""
        if not isinstance(value, str):
            raise self.type_error(f"reduction must be a str, this is {value!r}.")
        if value not in _REDUCTIONS:
            raise self.value_error(f"reduction={value!r} is not one of {', '.join(_REDUCTIONS)}.")
        self.settings["reduction"] = value

    def fusion(self, fusion: Any, fusion_id: Any, allowed: Sequence[int] = (0, 2)) -> None:
        """Check ``fusion`` and ``fusion_id`` against each other and the reduction.

        Args:
            fusion: 0, 1 or 2.
            fusion_id: For ``fusion=2``, the operators of one id are merged.
            allowed: The values of ``fusion`` that this function has.
        """
        reduction = self.settings.get("reduction", "sum")
        fusion = self.integer("fusion", fusion)
        fusion_id = self.integer("fusion_id", fusion_id)
        if fusion not in allowed:
            values = ", ".join(f"{value} ({_FUSIONS[value]})" for value in allowed)
            raise self.value_error(f"fusion={fusion}, but it can be {values}.")
        if fusion == 2 and not 0 <= fusion_id <= _LARGEST_INT32:
            raise self.value_error(
                "fusion=2 merges the operators of one fusion_id, which is from 0 to "
                f"{_LARGEST_INT32}; this is {fusion_id}."
            )
        if fusion == 1 and fusion_id != -1:
            raise self.value_error(
                f"fusion_id={fusion_id} needs fusion=2: fusion=1 follows the split of the "
                "gradients and takes no fusion_id."
            )
        if fusion == 2 and reduction != "sum":
            warn(
                f"hccl.{self.call}: fusion=2 has no effect on reduction={reduction!r}: HCCL merges "
                "only sums. Leave fusion out."
            )
        self.settings.update(fusion=fusion, fusion_id=fusion_id)

    def rank_size(self, value: Any) -> int:
        """Check the number of the group's ranks, and return it as an int."""
        reason = f"must be a number of ranks, from 1 to {_MOST_RANKS}."
        given = self.integer_in(range(1, _MOST_RANKS + 1), "rank_size", value, reason)
        size = self.size
        if size is not None and size != given:
            raise self.value_error(
                f"rank_size={given}, but the group {self.group!r} has {size} ranks. Give the "
                "group's size: hccl.size(group)."
            )
        self.settings["rank_size"] = given
        return given

    def member(self, name: str, value: Any) -> int:
        """Check a rank in the group, and return it as an int."""
        rank, size = self.rank(name, value), self.size
        if size is not None and rank >= size:
            raise self.value_error(
                f"{name}={rank} is not a rank of the group {self.group!r}, which has the ranks "
                f"0 to {size - 1}. It is the rank in the group, not in the job: hccl.group_rank."
            )
        self.settings[name] = rank
        return rank

    def rank_here(self, value: Any) -> None:
        """Check this process's rank in the group."""
        rank, actual = self.member("rank", value), self._ask_system("rank")
        if actual is not None and actual != rank:
            raise self.value_error(
                f"rank={rank}, but this process is rank {actual} of the group {self.group!r}. Give "
                "its own: hccl.rank(group)."
            )

    def tag(self, value: Any) -> None:
        """Check the tag of a message."""
        reason = f"must be from 0 to {_LARGEST_INT32}."
        allowed = range(_LARGEST_INT32 + 1)
        self.settings["sr_tag"] = self.integer_in(allowed, "sr_tag", value, reason)

    def tensor(self, name: str, value: Any, allowed: Sequence[str] = MOVED) -> Any:
        """Convert ``value`` to a tensor of one of the ``allowed`` types.

        If it cannot be converted, TensorFlow raises TypeError or ValueError.
        """
        tensor = tf1().convert_to_tensor(value)
        self.check_dtype(name, tensor.dtype, allowed)
        return tensor

    def check_dtype(self, name: str, dtype: Any, allowed: Sequence[str] = MOVED) -> None:
        """Check that a `tf.DType` is one of the ``allowed`` ones."""
        given = dtype.base_dtype.name
        if given not in allowed:
            raise self.type_error(
                f"{name} is {given}, but HCCL takes {', '.join(allowed)} here. Cast it: "
                "tf.cast(x, tf.float32)."
            )

    def operand(self, value: Any) -> Any:
        """Convert ``value`` to a tensor that HCCL can reduce."""
        if self.settings["reduction"] == "prod":
            tensor = self.tensor("tensor, with reduction='prod',", value, MULTIPLIED)
        else:
            tensor = self.tensor("tensor", value, REDUCED)
        elements = tensor.shape.num_elements()
        size_bytes = 0 if elements is None else elements * tensor.dtype.size
        if size_bytes > _MOST_BYTES:
            raise self.value_error(
                f"a tensor of the shape {tensor.shape.as_list()} has {size_bytes} bytes; HCCL "
                f"reduces at most {_MOST_BYTES} (8 GB) in one operator. Split it: tf.split(x, n)."
            )
        return tensor

    def warn_of_variable(self, tensor: Any) -> None:
        """Warn if the tensor is a variable."""
        operator = tensor.op
        while operator.type in _READS and len(operator.inputs) == 1:
            operator = operator.inputs[0].op
        if operator.type in VARIABLES:
            warn(
                f"hccl.{self.call}: its input is the variable {operator.name!r}, and the vendor's "
                'documentation says that "the upstream node of allreduce must not be variable". '
                "HCCL may reduce in place; a release that makes no copy before it would change "
                "the variable. Reduce something that is computed from it."
            )

    def counts(self, name: str, value: Any) -> None:
        """Check ints or an int64 tensor, whose values must not be negative if they are known."""
        tf = tf1()
        try:
            tensor = tf.convert_to_tensor(value, tf.int64)
        except (TypeError, ValueError) as error:
            raise self.type_error(
                f"{name} must be ints or an int64 tensor, this is {value!r}. Cast a tensor: "
                "tf.cast(x, tf.int64)."
            ) from error
        values = _static_values(tensor)
        if values and min(values) < 0:
            raise self.value_error(f"{name} has a number below 0: {values}.")
        self.settings[name] = tensor

    def check_lists(self, data: Any) -> None:
        """Check the four lists of all_to_all_v against each other and the data, as far as known.

        HCCL refuses lists that are too short, but reads and writes beyond the data.
        """
        size = self.size
        lists = {name: each for name, each in self.settings.items() if name != "group"}
        lengths = {name: tensor.shape.num_elements() for name, tensor in lists.items()}
        for name, length in lengths.items():
            if length is not None and size is not None and length < size:
                raise self.value_error(
                    f"{name} has {length} numbers, but the group has {size} ranks, and each needs "
                    "one."
                )
        counted, displaced = lengths["recv_counts"], lengths["recv_displacements"]
        if None not in (counted, displaced) and counted != displaced:
            raise self.value_error(
                f"recv_counts has {counted} numbers, but recv_displacements has {displaced}."
            )
        counts = _static_values(lists["send_counts"])
        displacements = _static_values(lists["send_displacements"])
        if counts is not None and displacements is not None:
            ends = [count + start for count, start in zip(counts, displacements) if count]
            self._check_end(data, max(ends, default=0))

    def check_matrix(self, data: Any) -> None:
        """Check the matrix of all_to_all_v_c, as far as it is known."""
        matrix, rank = self.settings["send_count_matrix"], self.settings["rank"]
        length, size = matrix.shape.num_elements(), self.size
        if length is None:
            return
        rows = math.floor(math.sqrt(length) + 0.5) if size is None else size
        if length != rows * rows or not length:
            ranks = "each rank" if size is None else f"each of the group's {size} ranks"
            raise self.value_error(
                f"send_count_matrix needs one row and one column for {ranks}; it has the shape "
                f"{matrix.shape.as_list()}."
            )
        if rank >= rows:
            raise self.value_error(
                f"rank={rank}, but send_count_matrix has rows for the ranks 0 to {rows - 1}."
            )
        values = _static_values(matrix)
        if values is not None:
            self._check_end(data, sum(values[rank * rows : (rank + 1) * rows]))

    def _check_end(self, data: Any, end: int) -> None:
        elements = data.shape.num_elements()
        if elements is not None and end > elements:
            raise self.value_error(
                f"the counts need {end} elements of send_data, but it has {elements}. Counts and "
                "displacements are in elements, not in bytes."
            )


def _static_values(tensor: Any) -> Optional[List[int]]:
    """Return the flattened values of a constant; None for another tensor."""
    value = tf1().get_static_value(tensor)
    return None if value is None else [int(number) for number in value.flatten()]

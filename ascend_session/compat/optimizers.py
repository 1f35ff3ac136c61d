"""What the vendor's optimizers share: averaging over ranks, updating by parts, loss scaling.

The environment says how many ranks there are (RANK_SIZE or CM_WORKER_SIZE), and JOB_ID that there
is a job. When each rank updates a part of the variables, the ranks get runs of neighbouring
gradients of about the same size in bytes. The division is the vendor's, step by step, for all ranks
and a checkpoint's reader have to come to the same one. The vendor's takes DEVICE_ID for the rank:
where it is another number, nobody would update some of the variables, and that is refused here.

Sources: npu_optimizer.py; npu/util.py, ``fair_division`` and what is around it;
npu_loss_scale_optimizer.py and the optimizer of tf.contrib that it extends.
"""

import os
import sys
import zlib
from typing import Any, Iterable, List, Optional, Sequence, Tuple

from ascend_session import hccl
from ascend_session.compat.sessions import session_log
from ascend_session.compat.tensorflow_names import tf
from ascend_session.errors import UnsupportedError
from ascend_session.training.gradients import distributed_gradients
from ascend_session.training.local_gradients import describe_variables, find_local_gradients
from ascend_session.user_code import user_line


class GradDivisionItem:
    """A gradient and its variable.

    Attributes:
        size: Bytes of the gradient, 0 for a scalar.
        root_rank_id: The rank that updates the variable, -1 as long as nobody does.
    """

    def __init__(self, grad: Any, var: Any) -> None:
        self.grad = grad
        self.var = var
        self.size = _bytes_of(grad)
        self.root_rank_id = -1


def _bytes_of(gradient: Any) -> int:
    shape = list(gradient.shape)
    if not shape:
        return 0
    size = int(gradient.dtype.size)
    for length in shape:
        size *= int(length)
    return size


_items: List[Any] = []


def add_grads_and_vars(grads_and_vars: Iterable[Tuple[Any, Any]], rank_size: int) -> None:
    """Divide these pairs among so many ranks, in place of those before."""
    items = [GradDivisionItem(grad, var) for grad, var in grads_and_vars if grad is not None]
    _items[:] = fair_division(items, rank_size)


def get_all_grad_item() -> List[Any]:
    """List what was divided last."""
    return _items


def get_gid_by_grad(grad: Any) -> int:
    """Return the rank to which the gradient of that name belongs, -1 if none does."""
    return _last([item.root_rank_id for item in _items if item.grad.name == grad.name])


def get_gid_by_weight(weight: Any) -> int:
    """Return the rank that updates the variable of that name, -1 if none does."""
    return _last([item.root_rank_id for item in _items if item.var.name == weight.name])


def _last(ranks: Sequence[int]) -> int:
    return ranks[-1] if ranks else -1


def fair_division(inputs: List[Any], number: int) -> List[Any]:
    """Assign each item a ``root_rank_id`` from 0 to ``number`` - 1.

    Raises:
        ValueError: If there are more ranks than items.
        ZeroDivisionError: For sizes that the vendor's does not divide either.
    """
    if number > len(inputs) or number < 0:
        raise ValueError(
            f"{len(inputs)} gradients cannot be divided among {number} ranks: each needs one."
        )
    if number == len(inputs):
        for place, item in enumerate(inputs):
            item.root_rank_id = place
        return inputs
    begin = 0
    for rank in range(number):
        after = number - rank - 1  # each rank behind this one needs an item
        begin = _fill(inputs, begin, len(inputs) - after, rank, _share(inputs, number - rank))
    return inputs


def _fill(inputs: List[Any], begin: int, end: int, rank: int, share: int) -> int:
    """Assign items to ``rank`` until it has its share; return where the next rank begins."""
    taken = 0
    for place in range(begin, end):
        size = inputs[place].size
        fits = taken + size <= share
        if not fits and place > begin and taken + size - share > share - taken:
            return place
        inputs[place].root_rank_id = rank
        taken += size
        if not fits:
            return place + 1
    return end


def _share(inputs: List[Any], ranks: int) -> int:
    """Compute what each of so many ranks should get of the free items; large ones aside."""
    free = [item for item in inputs if item.root_rank_id < 0]
    if ranks == 1:
        return int(sum(item.size for item in free))
    large: List[Any] = []
    while True:
        rest = sum(item.size for item in free if item not in large)
        if len(large) == ranks:
            raise ZeroDivisionError(
                f"{len(large)} gradients are each larger than all smaller ones together, as many "
                f"as there are ranks left ({ranks}): the vendor's division ends here, too."
            )
        share = int(rest // (ranks - len(large)))
        more = [item for item in free if item not in large and item.size > rest - item.size]
        if not more:
            return share
        large += more


def rank_count() -> int:
    """Return the number of ranks.

    Raises:
        ValueError: If the environment says no number, or two.
    """
    from ascend_session.compat.npu_bridge.estimator.npu import util

    return int(util.get_ranksize())


def averaged_in_job(
    gradients: Iterable[Any], name: str, variables: Optional[Sequence[Any]] = None
) -> List[Any]:
    """Average gradients over the ranks.

    Args:
        gradients: Gradients, or pairs of a gradient and its variable.
        name: Begins the name of the operators' scope.
        variables: What gradients alone are of.

    Raises:
        JobError: In a job of several ranks without JOB_ID.
    """
    given = list(gradients)
    if rank_count() <= 1:
        return given
    from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics

    NPUBasics("").size()
    if variables is None:
        variables = [variable for gradient, variable in given if gradient is not None]
    with tf.control_dependencies([_record_first_values(variables)]):
        return distributed_gradients(given, name=name)


def note_wrapper(name: str) -> None:
    """Note for the report that the script has an optimizer that averages gradients."""
    if name not in session_log().wrappers:
        session_log().wrappers.append(name)


def note_local_gradients(pairs: Sequence[Any], wrapper: str) -> None:
    """Report gradients that are about to be applied although no rank has averaged them.

    Args:
        pairs: Gradients and their variables.
        wrapper: The name of the optimizer that got them.
    """
    size = rank_count()
    local = find_local_gradients(pairs) if size > 1 else []
    if not local:
        return
    line = user_line(sys._getframe())
    sentence = (
        f"{wrapper}.apply_gradients{f' ({line})' if line else ''} got gradients that were never "
        f"averaged, of {describe_variables(local)}: this job trains {size} different models. "
        "Average them before clipping, with npu_allreduce(tf.gradients(...)), or take those of the "
        "optimizer's own compute_gradients(loss)."
    )
    if sentence not in session_log().local_gradients:
        session_log().local_gradients.append(sentence)


def _record_first_values(variables: Sequence[Any]) -> Any:
    """Make an operation that writes down, once in a process, what the variables begin with.

    Nothing is exchanged, so that no rank waits for another: rank 0 compares what all have written
    at the end. By the time it has the first average, each rank has written.
    """

    def record(*values: Any) -> bool:
        digest = 0
        for value in values:
            digest = zlib.crc32(value.tobytes(), digest)
        log = session_log()
        log.variables = digest
        log.record()
        return True

    with tf.name_scope("ascend_session_first_values"), tf.device("/device:CPU:0"):
        is_first = tf.numpy_function(lambda: session_log().variables is None, [], tf.bool)
        return tf.cond(
            is_first,
            lambda: tf.numpy_function(record, [each.read_value() for each in variables], tf.bool),
            lambda: tf.constant(False),
        )


def broadcast_values(variables: Sequence[Any], root_rank: Any) -> Any:
    """Make an operation that gives these variables of all ranks the root's values."""
    if not variables:
        return tf.no_op()
    received = hccl.broadcast([variable.read_value() for variable in variables], root_rank)
    return tf.group([variable.assign(value).op for variable, value in zip(variables, received)])


def multiply_dense(gradient: Any, factor: Any) -> Any:
    """Multiply a gradient, if there is one; IndexedSlices become dense, as with the vendor's."""
    if gradient is None:
        return None
    dense = tf.convert_to_tensor(gradient)
    return dense * tf.cast(factor, dense.dtype.base_dtype)


def own_rank() -> int:
    """Return this rank, which is DEVICE_ID.

    Raises:
        ValueError: If that is not set, or negative.
        UnsupportedError: If RANK_ID is another number.
    """
    device, rank = os.environ.get("DEVICE_ID"), os.environ.get("RANK_ID")
    if device is None or int(device) < 0:
        raise ValueError(f"Please set the correct DEVICE_ID value, current DEVICE_ID is: {device}")
    if rank is not None and int(rank) != int(device):
        raise UnsupportedError(
            f"npu_optimizer.reduce and is_weight_update_sharding take DEVICE_ID={device} for the "
            f"rank, but RANK_ID={rank}: some variables would never be updated.",
            hint="Leave is_weight_update_sharding out, or start the ranks on one server, one on "
            "each device.",
        )
    return int(device)


def own_pairs(pairs: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    """Split pairs into those that this rank applies and gradients that it only exchanges."""
    rank = own_rank()
    own, others = [], []
    for gradient, variable in pairs:
        owner = get_gid_by_weight(variable)
        if owner == rank:
            own.append((gradient, variable))
        elif owner >= 0:
            others.append(gradient)
    return own, others


def sent_by_owners(variables: Sequence[Any]) -> Any:
    """Make an operation that gives each of the variables its owner's value.

    Each exchange waits for the one before it: all ranks must come to them in the same order.
    """
    done: List[Any] = []
    for variable in variables:
        owner = get_gid_by_weight(variable)
        if owner < 0:
            continue
        with tf.control_dependencies(done[-1:]):
            received = hccl.broadcast([variable.read_value()], owner, 0, -1)[0]
            done.append(variable.assign(received).op)
    return tf.group(done)


COMPUTE_GRADIENTS = (
    "(loss, var_list=None, gate_gradients=1, aggregation_method=None, "
    "colocate_gradients_with_ops=False, grad_loss=None)"
)
"""What `compute_gradients` of ``tf.train.Optimizer`` takes; 1 is its ``GATE_OP``."""

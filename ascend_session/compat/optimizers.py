"""What the vendor's optimizers share: averaging over ranks, loss scaling.

The environment says how many ranks there are (RANK_SIZE or CM_WORKER_SIZE), and JOB_ID that there
is a job.

Sources: npu_optimizer.py; npu_loss_scale_optimizer.py and the optimizer of tf.contrib that it
extends.
"""

import sys
from typing import Any, Iterable, List, Optional, Sequence

from ascend_session import hccl
from ascend_session.backends.exchange.outcome import current_advice, set_advice
from ascend_session.compat.script_run import script_run
from ascend_session.compat.tensorflow_names import tf
from ascend_session.training.gradients import (
    average,
    describe_local_gradients,
    distributed_gradients,
)
from ascend_session.user_code import user_line


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
        return distributed_gradients(given, name=name)
    return average(given, name, variables=variables)


def note_wrapper(name: str) -> None:
    """Have advice on averaging name the optimizer that the script has for it."""
    average_with = f"{name}, in whose compute_gradients and minimize they are averaged"
    set_advice(current_advice()._replace(average=average_with))


def note_local_gradients(pairs: Sequence[Any], wrapper: str) -> None:
    """Report gradients that are about to be applied although no rank has averaged them.

    Args:
        pairs: Gradients and their variables.
        wrapper: The name of the optimizer that got them.
    """
    line = user_line(sys._getframe())
    called = f"{wrapper}.apply_gradients{f' ({line})' if line else ''}"
    sentence = describe_local_gradients(pairs, rank_count(), called, "npu_allreduce")
    if sentence and sentence not in script_run().local_gradients:
        script_run().local_gradients.append(sentence)


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


COMPUTE_GRADIENTS = (
    "(loss, var_list=None, gate_gradients=1, aggregation_method=None, "
    "colocate_gradients_with_ops=False, grad_loss=None)"
)
"""What `compute_gradients` of ``tf.train.Optimizer`` takes; 1 is its ``GATE_OP``."""

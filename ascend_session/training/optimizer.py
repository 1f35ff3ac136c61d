"""DistributedOptimizer: any optimizer of a graph, with gradients averaged over the ranks."""

from typing import Any, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import UnsupportedError
from ascend_session.session.conditions import TAILING, check_tailing
from ascend_session.session.registry import current_system
from ascend_session.training.keras_optimizer import distributed_keras, is_graph_keras
from ascend_session.training.ranks import job_size

__all__ = ["DistributedOptimizer"]


def DistributedOptimizer(  # noqa: N802  (it stands for a class, as the vendor's do)
    optimizer: Any,
    loss_scale_manager: Optional[Any] = None,
    is_tailing_optimization: bool = False,
    name: Optional[str] = None,
    is_weight_update_sharding: bool = False,
) -> Any:
    """Makes of an optimizer one that averages gradients over all ranks before it applies them.

    It does what the vendor's NPUDistributedOptimizer, NPUOptimizer, NPULossScaleOptimizer and
    KerasDistributeOptimizer do. In a job of one rank no collective is added to the graph.

    Args:
        optimizer: A ``tf.train.Optimizer`` (``tf.compat.v1``), which is wrapped, or a Keras
            optimizer for graphs (``get_gradients``), of which a copy of its own class is made that
            shares its state. Optimizers of Keras 3, and the new ones of 2.11 and later, are none.
        loss_scale_manager: Scales the loss, and the gradients back; an overflow on any rank means
            that no rank updates anything. Not for Keras optimizers.
        is_tailing_optimization: Lets the last exchange of gradients overlap with other work of the
            device. It must be the same as in the AscendConfig.
        name: The optimizer's name; begins the names of its operators.
        is_weight_update_sharding: Refused if True, see below.

    Raises:
        TypeError: If it is no optimizer, or one that is distributed already.
        UnsupportedError: For a Keras optimizer that has no graph mode, for loss scaling with
            Keras, in a job with parameter servers, and for weight update sharding: the vendor's
            takes DEVICE_ID for the rank and leans on a pass over variables without resources.
        LifecycleError: If the open system has another ``is_tailing_optimization``; what opens
            later is compared when it opens.
        JobError: If the environment does not say how many ranks there are.
    """
    tf = tf1()
    if is_weight_update_sharding:
        raise UnsupportedError(
            "Weight update sharding is not offered: the vendor's (npu_optimizer.py) takes "
            "DEVICE_ID for the rank, so that on a second server nobody would update anything.",
            hint="Leave is_weight_update_sharding out.",
        )
    job_size("DistributedOptimizer")
    if isinstance(optimizer, tf.train.Optimizer):
        from ascend_session.training.train_optimizer import TrainOptimizer

        if isinstance(optimizer, TrainOptimizer):
            raise TypeError(f"{optimizer.get_name()!r} is distributed already.")
        made = TrainOptimizer(optimizer, loss_scale_manager, is_tailing_optimization, name)
    else:
        made = _keras(optimizer, loss_scale_manager, is_tailing_optimization, name)
    _note_tailing(is_tailing_optimization)
    return made


def _keras(optimizer: Any, manager: Any, tailing: bool, name: Optional[str]) -> Any:
    kind = f"{type(optimizer).__module__}.{type(optimizer).__name__}"
    if not is_graph_keras(optimizer):
        if "keras" in kind:
            raise UnsupportedError(
                f"{kind} has no graph mode: Keras calls it eagerly, in functions of its own.",
                hint="Use an optimizer of tf.compat.v1.train, or of tf.keras.optimizers.legacy "
                "where this TensorFlow has it.",
            )
        raise TypeError(f"optimizer must be a tf.train.Optimizer or a Keras optimizer, not {kind}.")
    if manager is not None or tailing:
        raise UnsupportedError(
            f"Loss scaling and is_tailing_optimization need a tf.train.Optimizer; {kind} is of "
            "Keras.",
            hint="Leave them out, or use an optimizer of tf.train (tf.compat.v1.train).",
        )
    return distributed_keras(optimizer, name)


def _note_tailing(tailing: bool) -> None:
    system = current_system()
    if system is not None:
        check_tailing(tailing, system.parameters, "the open system's configuration")
    graph = tf1().get_default_graph()
    if int(tailing) not in graph.get_collection(TAILING):
        graph.add_to_collection(TAILING, int(tailing))

"""Training on several ranks, and what else the device wants from a training script.

Everything here works in the same way on the device and on the stub, and in a job of one rank it
adds no collective to the graph. What is not here is the sharding of data, which ``tf.data`` has:
each rank reads its own part, and all make as many steps, with gradients of the same shapes::

    steps = examples // (32 * system.size)
    dataset = dataset.take(steps * 32 * system.size)
    dataset = dataset.shard(system.size, system.rank)    # before shuffle() and batch()
    dataset = dataset.batch(32)

Names are loaded when they are first used, so that this module imports no TensorFlow: its hooks are
classes of TensorFlow's.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.training.acceleration import TellMeStepOrLossHook as TellMeStepOrLossHook
    from ascend_session.training.broadcast import (
        BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook,
    )
    from ascend_session.training.broadcast import (
        broadcast_global_variables as broadcast_global_variables,
    )
    from ascend_session.training.gradients import distributed_gradients as distributed_gradients
    from ascend_session.training.loops import IterationsPerLoopHook as IterationsPerLoopHook
    from ascend_session.training.loops import iterations_per_loop as iterations_per_loop
    from ascend_session.training.loss_scale import (
        ExponentialUpdateLossScaleManager as ExponentialUpdateLossScaleManager,
    )
    from ascend_session.training.loss_scale import FixedLossScaleManager as FixedLossScaleManager
    from ascend_session.training.loss_scale import LossScaleManager as LossScaleManager
    from ascend_session.training.optimizer import DistributedOptimizer as DistributedOptimizer
    from ascend_session.training.preemption import SaveOnPreemptionHook as SaveOnPreemptionHook
    from ascend_session.training.progress import note_first_step as note_first_step

_HOMES = {
    "BroadcastGlobalVariablesHook": "broadcast",
    "DistributedOptimizer": "optimizer",
    "ExponentialUpdateLossScaleManager": "loss_scale",
    "FixedLossScaleManager": "loss_scale",
    "IterationsPerLoopHook": "loops",
    "LossScaleManager": "loss_scale",
    "SaveOnPreemptionHook": "preemption",
    "TellMeStepOrLossHook": "acceleration",
    "broadcast_global_variables": "broadcast",
    "distributed_gradients": "gradients",
    "iterations_per_loop": "loops",
    "note_first_step": "progress",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())

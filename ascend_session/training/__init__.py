"""Optimizers, hooks and loops for training on one or several ranks (guides/training.md).

Everything here works in the same way on the device and on the stub. In a job of one rank no
collective is added to the graph. Use ``tf.data`` to shard data: each rank reads its own part, and
all ranks make equally many steps, with gradients of the same shapes::

    steps = examples // (32 * system.size)
    dataset = dataset.take(steps * 32 * system.size)
    dataset = dataset.shard(system.size, system.rank)    # before shuffle() and batch()
    dataset = dataset.batch(32)

Names are loaded when they are first used: the hooks derive from a class of TensorFlow, and
importing this module does not import TensorFlow.
"""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())

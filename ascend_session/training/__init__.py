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

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())

"""How many steps all ranks can make."""

import numbers
from typing import Any

from ascend_session import hccl
from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.tf_sessions import opening_by_api
from ascend_session.errors import ConfigError, LifecycleError
from ascend_session.session.system import current_system

_LARGEST = 2**31 - 1  # of the int32 that the ranks exchange


def common_steps(n: Any) -> int:
    """Return the smallest of the numbers that the ranks give, by one allreduce.

    For data that are not divided evenly: all ranks make as many steps, and none waits for one whose
    data has ended. Call it on all ranks, while the system is open and before you build the graph::

        steps = training.common_steps(len(my_examples) // batch_size)
        dataset = dataset.batch(batch_size, drop_remainder=True).take(steps)

    Args:
        n: The number of steps for which this rank has data; 0 to 2**31 - 1.

    Returns:
        The minimum over the ranks; ``n`` in a job of one rank.

    Raises:
        TypeError: If ``n`` is not an int.
        ConfigError: If ``n`` is out of range.
        LifecycleError: If no system is open.
        CollectiveError: If a rank is missing, as from any collective.
    """
    if isinstance(n, bool) or not isinstance(n, numbers.Integral):
        raise TypeError(f"common_steps: n must be an int, this is {n!r}.")
    if not 0 <= int(n) <= _LARGEST:
        raise ConfigError(f"n={n} must be 0 to {_LARGEST}: it is a number of steps.")
    system = current_system()
    if system is None:
        raise LifecycleError(
            "common_steps needs an open system, to ask the other ranks.",
            hint="with ascend_system(config) as system: ...",
        )
    if system.size == 1:
        return int(n)
    tf = tf1()
    with tf.Graph().as_default() as graph:
        count = tf.placeholder(tf.int32, [1], "steps")
        smallest = hccl.allreduce(count, "min", fusion=0)
        with opening_by_api():
            session = tf.Session(system.target, graph, system.session_config())
        with session:
            return int(session.run(smallest, {count: [int(n)]})[0])

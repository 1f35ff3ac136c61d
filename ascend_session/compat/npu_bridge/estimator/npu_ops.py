"""``npu_bridge.estimator.npu_ops``: the system's operators, dropout, and optimizers' steps.

Names and signatures are those of the newest release, and of the old ones where those had more.
Source: npu_ops.py.
"""

from typing import Any

from tensorflow.python.framework import random_seed

from ascend_session.backends import training_operators
from ascend_session.compat import formulas
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.operators import graph_only
from ascend_session.compat.vendor_modules import mirror

gen_npu_ops = helper.get_gen_ops()

DEFAULT_GRAPH_SEED = 87654321

LARS = graph_only("tf.LARS")(formulas.lars)
LARSV2 = graph_only("tf.LARSV2")(formulas.lars_v2)
dropout = graph_only("npu_ops.dropout")(training_operators.dropout)


@graph_only("tf.NPUInit")
def NPUInit(name: Any = None) -> Any:  # noqa: N802
    """Return the operation that initialises the system; RuntimeError under eager execution."""
    return gen_npu_ops.npu_init(name=name)


@graph_only("tf.NPUShutdown")
def NPUShutdown(name: Any = None) -> Any:  # noqa: N802
    """Return the operation that shuts the system down; open sessions cannot run any more."""
    return gen_npu_ops.npu_shutdown(name=name)


def initialize_system(name: Any = None) -> Any:
    """Do as `NPUInit`; ranks and groups are known after a run of the operation."""
    return NPUInit(name)


def shutdown_system(name: Any = None) -> Any:
    """Do as `NPUShutdown`."""
    return NPUShutdown(name)


def get_seed(op_seed: Any) -> Any:
    """Return the two seeds of a random operator; of releases before 2022."""
    return random_seed.get_seed(op_seed)


__getattr__, __all__ = mirror(
    globals(), "DEFAULT_GRAPH_SEED LARS LARSV2 NPUBasics dropout gen_npu_ops"
)

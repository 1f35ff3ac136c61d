"""The vendor's names, as far as the programs of ranks_programs need them, called as we call ours.

A program that takes its names from here is a script in the vendor's API: nothing but npu_bridge and
hccl.manage stands behind them.
"""

from ascend_session.compat import finder

finder.install()

import contextlib  # noqa: E402
from types import SimpleNamespace  # noqa: E402

import tensorflow.compat.v1 as tf  # noqa: E402
from hccl.manage.api import create_group  # noqa: E402
from npu_bridge.npu_init import (  # noqa: E402
    ExponentialUpdateLossScaleManager,
    NPUBroadcastGlobalVariablesHook,
    NPULossScaleOptimizer,
    RewriterConfig,
    hccl_ops,
    init_resource,
    npu_allreduce,
    npu_config_proto,
    npu_keras_optimizer,
    npu_tf_optimizer,
    shutdown_resource,
)


def session_config():
    """A proto as the vendor's migration guide has it."""
    proto = tf.ConfigProto()
    options = proto.graph_options.rewrite_options
    options.custom_optimizers.add().name = "NpuOptimizer"
    options.remapping = options.memory_optimization = RewriterConfig.OFF
    return npu_config_proto(config_proto=proto)


@contextlib.contextmanager
def ascend_system():
    """Initialises the device before the graph is built, as scripts with groups do."""
    resources = init_resource(config=session_config())
    yield SimpleNamespace(
        target="",
        session_config=session_config,
        session=lambda: tf.Session(config=session_config()),
    )
    shutdown_resource(*resources)
    resources[0].close()


def distributed_optimizer(optimizer, manager=None):
    """An optimizer that averages gradients, and may scale the loss."""
    if not isinstance(optimizer, tf.train.Optimizer):
        return npu_keras_optimizer(optimizer)
    averaging = npu_tf_optimizer(optimizer)
    return NPULossScaleOptimizer(averaging, manager, is_distributed=True) if manager else averaging


def broadcast_global_variables(root_rank):
    """All ranks get the root's values of these, in place."""
    return hccl_ops.broadcast(tf.global_variables(), root_rank)


hccl = SimpleNamespace(allreduce=hccl_ops.allreduce, create_group=create_group)
training = SimpleNamespace(
    BroadcastGlobalVariablesHook=NPUBroadcastGlobalVariablesHook,
    DistributedOptimizer=distributed_optimizer,
    ExponentialUpdateLossScaleManager=ExponentialUpdateLossScaleManager,
    broadcast_global_variables=broadcast_global_variables,
    distributed_gradients=npu_allreduce,
)

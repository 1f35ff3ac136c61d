"""``npu_bridge.npu_init``: what public scripts begin with, by ``import *``.

Importing it makes every later ``tf.Session`` and ``tf.InteractiveSession`` one with an entry, as
the vendor's does; the proto that they are given is changed. Source: npu_init.py of the current
release, and of those from 2020 on for ``npu_session_config_init``.
"""

import os
from typing import Any, List, Tuple

from tensorflow.core.protobuf import config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.client import session
from tensorflow.python.training import session_run_hook

from ascend_session.compat.hccl.manage.api import (
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
)
from ascend_session.compat.npu_bridge.estimator import npu_ops
from ascend_session.compat.npu_bridge.estimator.npu import util
from ascend_session.compat.npu_bridge.estimator.npu.npu_callbacks import (
    NPUBroadcastGlobalVariablesCallback,
)
from ascend_session.compat.npu_bridge.estimator.npu.npu_config import (
    _add_npu_optimizer,
    decorator_tf_session,
)
from ascend_session.compat.npu_bridge.estimator.npu.npu_hook import NPUBroadcastGlobalVariablesHook
from ascend_session.compat.npu_bridge.estimator.npu.npu_optimizer import (
    KerasDistributeOptimizer,
    NPUDistributedOptimizer,
)
from ascend_session.compat.tensorflow_names import RunConfig
from ascend_session.compat.tensorflow_names import keras_backend as backend
from ascend_session.compat.vendor_modules import mirror

experimental_options = {
    "disable_model_pruning": False,
    **dict.fromkeys(
        (
            "function_optimization",
            "constant_folding",
            "shape_optimization",
            "arithmetic_optimization",
            "loop_optimization",
            "dependency_optimization",
            "layout_optimizer",
        ),
        RewriterConfig.ON,
    ),
}


def npu_config_proto(config_proto: Any = None) -> Any:
    """Return a session's proto for the device: the given one, changed, or a new one."""
    return _add_npu_optimizer(_or_new(config_proto, config_pb2.ConfigProto))


def npu_session_config_init(session_config: Any = None) -> Any:
    """Do as `npu_config_proto`; of releases before 2022."""
    return npu_config_proto(session_config)


def npu_graph_options(graph_options: Any = None) -> Any:
    """Return options without XLA: the given ones, changed, or new ones."""
    options = _or_new(graph_options, config_pb2.GraphOptions)
    npu_optimizer_options(options.optimizer_options)
    return options


def npu_optimizer_options(optimizer_options: Any = None) -> Any:
    """Return options without XLA: the given ones, changed, or new ones."""
    options = _or_new(optimizer_options, config_pb2.OptimizerOptions)
    options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return options


def _or_new(given: Any, kind: Any) -> Any:
    return given if isinstance(given, kind) else kind()


def npu_run_config_init(run_config: Any = None) -> Any:
    """Return a RunConfig for sessions on the device: the given one, changed, or a new one.

    Raises:
        UnsupportedError: Without ``tf.estimator``.
    """
    config = _or_new(run_config, RunConfig)
    config.__dict__["_session_config"] = npu_config_proto(config.session_config)
    return config


def npu_hooks_append(hooks_list: Any = ()) -> List[Any]:
    """Add a hook that broadcasts rank 0's variables to a list, or to a new one; return the list."""
    hooks: List[Any] = hooks_list if isinstance(hooks_list, list) else []
    hooks.append(NPUBroadcastGlobalVariablesHook(0, int(os.getenv("RANK_ID", "0"))))
    return hooks


def npu_callbacks_append(callbacks_list: Any = ()) -> List[Any]:
    """Add a Keras callback that broadcasts rank 0's variables to a list, or to a new one."""
    callbacks: List[Any] = callbacks_list if isinstance(callbacks_list, list) else []
    callbacks.append(NPUBroadcastGlobalVariablesCallback(0))
    return callbacks


def set_keras_session_npu_config(config: Any = None) -> Any:
    """Open a session on the device for Keras, and return it."""
    sess = session.Session(config=npu_config_proto(config))
    backend.set_session(sess)
    return sess


def init_resource(config: Any = None) -> Tuple[Any, Any]:
    """Initialise the device in a new session.

    Returns:
        The session, and the operation that `shutdown_resource` runs.
    """
    proto = npu_config_proto(config)
    util.global_dict_init()
    starting = npu_ops.initialize_system()
    ending = npu_ops.shutdown_system()
    sess = session.Session(config=proto)
    sess.run(starting)
    util.set_value("npu_rank_id", get_rank_id())
    util.set_value("npu_local_rank_id", get_local_rank_id())
    util.set_value("npu_rank_size", get_rank_size())
    util.set_value("npu_local_rank_size", get_local_rank_size())
    return sess, ending


def shutdown_resource(sess: Any, npu_shutdown: Any) -> None:
    """Shut the device down."""
    sess.run(npu_shutdown)


def close_session(sess: Any) -> None:
    """Close a session."""
    sess.close()


def get_npu_rank_id() -> Any:
    """Return this rank; raise NameError before `init_resource`, as the vendor's does."""
    return util.get_value("npu_rank_id", 0)


def get_npu_local_rank_id() -> Any:
    """Return this rank among those of its server; raises as `get_npu_rank_id`."""
    return util.get_value("npu_local_rank_id", 0)


def get_npu_rank_size() -> Any:
    """Return the number of ranks; raises as `get_npu_rank_id`."""
    return util.get_value("npu_rank_size", 1)


def get_npu_local_rank_size() -> Any:
    """Return the number of ranks on this server; raises as `get_npu_rank_id`."""
    return util.get_value("npu_local_rank_size", 1)


class NpuEmptyHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """A hook that does nothing."""


def npu_keras_optimizer(opt: Any) -> Any:
    """Wrap a Keras optimizer, to average its gradients over the ranks."""
    return KerasDistributeOptimizer(opt)


def npu_tf_optimizer(opt: Any) -> Any:
    """Wrap an optimizer of ``tf.train``, to average its gradients over the ranks."""
    return NPUDistributedOptimizer(opt)


def npu_clear_session(config: Any = None) -> None:
    """Start a new graph of Keras, with a new session on the device."""
    backend.clear_session()
    backend.set_session(session.Session(config=npu_config_proto(config)))


session.Session.__init__ = decorator_tf_session(session.Session.__init__)
session.InteractiveSession.__init__ = decorator_tf_session(session.InteractiveSession.__init__)

# What the vendor's imports, its users have. The last three are of releases before 2022.
__getattr__, __all__ = mirror(
    globals(),
    "DumpConfig DynamicInputConfig ExponentialUpdateLossScaleManager FixedLossScaleManager "
    "KerasDistributeOptimizer MemoryConfig NPUBroadcastGlobalVariablesCallback "
    "NPUBroadcastGlobalVariablesHook NPUCheckpointSaverHook NPUDistributedOptimizer NPUEstimator "
    "NPUEstimatorSpec NPULossScaleOptimizer NPUOptimizer NPUOutputTensorHook NPURunConfig "
    "ProfilingConfig RewriterConfig SetIterationsVarHook TellMeStepOrLossHook backend config_pb2 "
    "create_group decorator_tf_session destroy_group experimental_options "
    "get_group_rank_from_world_rank get_local_rank_id get_local_rank_size get_rank_id "
    "get_rank_size get_world_rank_from_group_rank hccl_ops keras_to_npu npu_allreduce "
    "npu_config_proto npu_cpu_ops npu_distributed_optimizer_wrapper npu_graph_options npu_ops "
    "npu_optimizer_options npu_plugin npu_rnn npu_run_config_init npu_scope npu_strategy "
    "npu_unary_ops os profiler rewriter_config_pb2 scoped_graph_manager "
    "set_split_strategy_by_idx set_split_strategy_by_size tf util "
    "atexit npu_close npu_session_config_init",
)
__all__ += ["session", "session_run_hook"]

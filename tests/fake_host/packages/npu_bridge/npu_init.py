"""What scripts import with a star, and what patches every session (npu_bridge/npu_init.py).

guides/facts/process.md#importing-npu_bridge. Of the vendor's names those that need its
estimator, optimizers or Keras are not here: nothing uses them.
"""

import functools
from typing import Any, Callable, Dict

import fake_ge
from hccl.manage.api import (
    create_group,
    destroy_group,
    get_group_rank_from_world_rank,
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
    get_world_rank_from_group_rank,
)
from hccl.split.api import set_split_strategy_by_idx, set_split_strategy_by_size
from tensorflow.core.protobuf import config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.client import session

from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu import npu_plugin
from npu_bridge.hccl import hccl_ops
from npu_bridge.profiler import profiler

__all__ = [
    "RewriterConfig",
    "close_session",
    "create_group",
    "destroy_group",
    "get_group_rank_from_world_rank",
    "get_local_rank_id",
    "get_local_rank_size",
    "get_npu_local_rank_id",
    "get_npu_local_rank_size",
    "get_npu_rank_id",
    "get_npu_rank_size",
    "get_rank_id",
    "get_rank_size",
    "get_world_rank_from_group_rank",
    "hccl_ops",
    "init_resource",
    "npu_config_proto",
    "npu_graph_options",
    "npu_ops",
    "npu_optimizer_options",
    "npu_plugin",
    "profiler",
    "session",
    "set_split_strategy_by_idx",
    "set_split_strategy_by_size",
    "shutdown_resource",
]

_values: Dict[str, int] = {}
_originals = {kind: kind.__init__ for kind in (session.Session, session.InteractiveSession)}


def npu_config_proto(config_proto: Any = None) -> Any:
    """The caller's own proto, changed; a new one if it is none."""
    if not isinstance(config_proto, config_pb2.ConfigProto):
        config_proto = config_pb2.ConfigProto()
    rewriter = config_proto.graph_options.rewrite_options
    if not any(one.name == "NpuOptimizer" for one in rewriter.custom_optimizers):
        rewriter.custom_optimizers.add(name="NpuOptimizer")
        # guides/facts/process.md#importing-npu_bridge: only with an entry of its own
        rewriter.memory_optimization = RewriterConfig.OFF
    # guides/facts/process.md#importing-npu_bridge: what is changed in any case
    config_proto.allow_soft_placement = True
    config_proto.log_device_placement = False
    rewriter.remapping = RewriterConfig.OFF
    npu_graph_options(config_proto.graph_options)
    return config_proto


def npu_graph_options(graph_options: Any = None) -> Any:
    """Graph options without JIT."""
    if not isinstance(graph_options, config_pb2.GraphOptions):
        graph_options = config_pb2.GraphOptions()
    npu_optimizer_options(graph_options.optimizer_options)
    return graph_options


def npu_optimizer_options(optimizer_options: Any = None) -> Any:
    """Optimizer options without JIT."""
    if not isinstance(optimizer_options, config_pb2.OptimizerOptions):
        optimizer_options = config_pb2.OptimizerOptions()
    optimizer_options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return optimizer_options


def init_resource(config: Any = None) -> Any:
    """Initialises the device; returns the session that did it, and the operator that ends it."""
    config = npu_config_proto(config)
    start, end = npu_ops.initialize_system(), npu_ops.shutdown_system()
    sess = session.Session(config=config)
    sess.run(start)
    _values.update(rank_id=get_rank_id(), local_rank_id=get_local_rank_id())
    _values.update(rank_size=get_rank_size(), local_rank_size=get_local_rank_size())
    return sess, end


def shutdown_resource(sess: Any, npu_shutdown: Any) -> None:
    """Ends the device."""
    sess.run(npu_shutdown)


def close_session(sess: Any) -> None:
    """Closes a session."""
    sess.close()


def get_npu_rank_id() -> int:
    """This process's rank; 0 before init_resource."""
    return _values.get("rank_id", 0)


def get_npu_local_rank_id() -> int:
    """Its rank on the server; 0 before init_resource."""
    return _values.get("local_rank_id", 0)


def get_npu_rank_size() -> int:
    """The number of ranks; 1 before init_resource."""
    return _values.get("rank_size", 1)


def get_npu_local_rank_size() -> int:
    """The number on this server; 1 before init_resource."""
    return _values.get("local_rank_size", 1)


def unpatch() -> None:
    """Gives TensorFlow its own constructors back; only the fake has this."""
    for kind, original in _originals.items():
        kind.__init__ = original


def _patched(original: Callable[..., None]) -> Callable[..., None]:
    # npu_config.py, decorator_tf_session
    @functools.wraps(original)
    def init(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        original(self, target, graph, npu_config_proto(config))

    return init


# guides/facts/process.md#importing-npu_bridge: both kinds of sessions
fake_ge.note("import npu_bridge.npu_init")
for _kind, _original in _originals.items():
    _kind.__init__ = _patched(_original)

"""Protos of sessions on the device, as the functions of npu_init make them.

Source: npu_init.py and npu_config.py, ``set_npu_default_config``.
"""

from typing import Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from ascend_session.compat.tensorflow_names import RunConfig
from ascend_session.config.proto import ENTRY_NAME

__all__ = [
    "add_npu_optimizer",
    "npu_config_proto",
    "npu_graph_options",
    "npu_optimizer_options",
    "npu_run_config_init",
    "npu_session_config_init",
]


def add_npu_optimizer(proto: Any) -> Any:
    """Makes ``proto`` one of a session on the device, as every function of npu_init does.

    ``RewriterConfig.OFF`` is the vendor's word for memory_optimization, and means MANUAL there
    (adapter_behaviour.md); only a new entry sets it.
    """
    rewrite = proto.graph_options.rewrite_options
    if all(one.name != ENTRY_NAME for one in rewrite.custom_optimizers):
        rewrite.custom_optimizers.add().name = ENTRY_NAME
        rewrite.memory_optimization = RewriterConfig.OFF
    proto.allow_soft_placement = True
    proto.log_device_placement = False
    rewrite.remapping = RewriterConfig.OFF
    proto.graph_options.optimizer_options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return proto


def npu_config_proto(config_proto: Any = None) -> Any:
    """The proto of a session on the device: what was given, changed, else a new one."""
    return add_npu_optimizer(_or_new(config_proto, config_pb2.ConfigProto))


def npu_session_config_init(session_config: Any = None) -> Any:
    """As `npu_config_proto`; of releases before 2022."""
    return npu_config_proto(session_config)


def npu_graph_options(graph_options: Any = None) -> Any:
    """The same without XLA: what was given, changed, else new ones."""
    options = _or_new(graph_options, config_pb2.GraphOptions)
    npu_optimizer_options(options.optimizer_options)
    return options


def npu_optimizer_options(optimizer_options: Any = None) -> Any:
    """The same without XLA: what was given, changed, else new ones."""
    options = _or_new(optimizer_options, config_pb2.OptimizerOptions)
    options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return options


def _or_new(given: Any, kind: Any) -> Any:
    return given if isinstance(given, kind) else kind()


def npu_run_config_init(run_config: Any = None) -> Any:
    """A ``tf.estimator.RunConfig`` whose sessions are on the device: that given, changed, or new.

    Raises:
        UnsupportedError: Without ``tf.estimator``.
    """
    config = _or_new(run_config, RunConfig)
    config.__dict__["_session_config"] = npu_config_proto(config.session_config)
    return config

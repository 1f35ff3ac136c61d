"""Protos with NpuOptimizer entries, for the tests that write and read them."""

import warnings
from typing import Any, Dict, Tuple

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorFlow 1.15 is older than the numpy that it imports
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

__all__ = ["OFF", "add", "base", "config_pb2", "content", "entry_of", "rewriter_config_pb2"]

OFF = rewriter_config_pb2.RewriterConfig.OFF


def base(**entry: Any) -> Any:
    """A proto with one NpuOptimizer entry: ``key=(field, value)``."""
    proto = config_pb2.ConfigProto()
    add(proto, "NpuOptimizer", entry)
    return proto


def add(proto: Any, name: str, entry: Dict[str, Tuple[str, Any]]) -> Any:
    optimizer = proto.graph_options.rewrite_options.custom_optimizers.add()
    optimizer.name = name
    for key, (field, value) in entry.items():
        setattr(optimizer.parameter_map[key], field, value)
    return optimizer


def entry_of(proto: Any) -> Dict[str, Tuple[str, Any]]:
    """``{key: (field, value)}`` of the one NpuOptimizer entry."""
    optimizers = proto.graph_options.rewrite_options.custom_optimizers
    [entry] = [o for o in optimizers if o.name == "NpuOptimizer"]
    fields = {key: value.WhichOneof("value") for key, value in entry.parameter_map.items()}
    return {key: (f, getattr(entry.parameter_map[key], f)) for key, f in fields.items()}


def content(proto: Any) -> bytes:
    serialized: bytes = proto.SerializeToString(deterministic=True)
    return serialized

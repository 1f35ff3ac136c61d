"""The vendor's packages and configuration classes, as scripts import them."""

import ast
from typing import Dict, List, Set, Tuple, Type

from pydantic import BaseModel

from ascend_session.audit.source import SyntaxTree
from ascend_session.config.options import (
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
)

_MODELS: Tuple[Type[BaseModel], ...] = (
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
)
PART_MODELS: Dict[str, Type[BaseModel]] = {model.__name__: model for model in _MODELS}
"""The parts of NPURunConfig, under the vendor's names."""

POSITIONAL: Dict[str, List[str]] = {
    "NPURunConfig": ["iterations_per_loop", "profiling_config", "model_dir"],
    **{name: list(model.model_fields) for name, model in PART_MODELS.items()},
}
"""The first arguments of each class, in their order (npu_config.py)."""


def is_vendor_module(name: str) -> bool:
    """Whether a module is the vendor's."""
    return name.split(".")[0] in ("npu_bridge", "npu_device")


def find_vendor_classes(tree: SyntaxTree) -> Set[str]:
    """Find the classes of `POSITIONAL` that mean the vendor's in this script.

    NPURunConfig has a name of its own; the others are called like classes of other packages, and
    count where they are imported from the vendor's, or everything is.
    """
    vendors: Set[str] = set()
    others: Set[str] = {node.name for node in tree.nodes(ast.ClassDef)}
    for node in tree.nodes(ast.ImportFrom):
        names = {alias.asname or alias.name for alias in node.names}
        if is_vendor_module(node.module or ""):
            vendors |= set(POSITIONAL) if names & {"*", "npu_config"} else names
        else:
            others |= names
    for node in tree.nodes(ast.Import):
        if any(is_vendor_module(alias.name) for alias in node.names):
            vendors |= set(POSITIONAL)
    others -= {"NPURunConfig"} & vendors
    return ({"NPURunConfig"} | (vendors & set(POSITIONAL))) - others

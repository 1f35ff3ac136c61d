"""The vendor's classes that a script may call, and whether a name in a script is one of them."""

import ast
from typing import Dict, List, Set, Type

from pydantic import BaseModel

from ascend_session.audit.tree import Tree
from ascend_session.config.dump import DumpConfig
from ascend_session.config.dynamic_input import DynamicInputConfig
from ascend_session.config.experimental import ExperimentalConfig, GraphMemoryOptimizeConfig
from ascend_session.config.memory import MemoryConfig
from ascend_session.config.profiling import ProfilingConfig

__all__ = ["CLASSES", "MODELS", "is_vendor_module", "vendor_classes"]

_PARTS: List[Type[BaseModel]] = [
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
]
MODELS: Dict[str, Type[BaseModel]] = {each.__name__: each for each in _PARTS}
"""The parts of NPURunConfig, under the vendor's names."""

CLASSES: Dict[str, List[str]] = {
    "NPURunConfig": ["iterations_per_loop", "profiling_config", "model_dir"],
    **{name: list(model.model_fields) for name, model in MODELS.items()},
}
"""Class -> its first arguments in their order (npu_config.py)."""

_PACKAGES = ("npu_bridge", "npu_device")


def is_vendor_module(name: str) -> bool:
    """Whether a module is the vendor's."""
    return name.split(".")[0] in _PACKAGES


def vendor_classes(tree: Tree) -> Set[str]:
    """The classes of `CLASSES` that mean the vendor's in this script.

    NPURunConfig has a name of its own; the others are called like classes of other packages, and
    count where they are imported from the vendor's, or everything is.
    """
    found: Set[str] = set()
    own: Set[str] = {node.name for node in tree.kind(ast.ClassDef)}
    for node in tree.kind(ast.ImportFrom):
        names = {alias.asname or alias.name for alias in node.names}
        if is_vendor_module(node.module or ""):
            found |= set(CLASSES) if names & {"*", "npu_config"} else names
        else:
            own |= names
    for node in tree.kind(ast.Import):
        if any(is_vendor_module(alias.name) for alias in node.names):
            found |= set(CLASSES)
    own -= {"NPURunConfig"} & found
    found.add("NPURunConfig")
    return {name for name in found if name in CLASSES} - own

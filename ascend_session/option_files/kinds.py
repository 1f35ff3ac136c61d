"""Which option points to which kind of file; every configuration asks, and loads none of them."""

import importlib
from typing import TYPE_CHECKING, Dict, Tuple, Type

if TYPE_CHECKING:
    from ascend_session.option_files.base import OptionFile

__all__ = ["FILE_OPTIONS", "TYPE_NAMES", "file_type"]

# option: the name of its type, and the module that has it
_HOMES: Dict[str, Tuple[str, str]] = {
    "op_precision_mode": ("OpPrecision", "op_precision"),
    "modify_mixlist": ("MixList", "mixlist"),
    "customize_dtypes": ("CustomDtypes", "customize_dtypes"),
    "fusion_switch_file": ("FusionSwitch", "fusion_switch"),
    "op_debug_config": ("OpDebugConfig", "op_debug"),
    "aoe_config_file": ("AoeConfigFile", "aoe_config"),
    "insert_op_file": ("Aipp", "aipp"),
}
# Not an option's own file, but one in the directory that it names
_INSIDE: Dict[str, Tuple[str, str]] = {"op_compiler_cache_dir": ("OpCache", "op_cache")}

FILE_OPTIONS = tuple(_HOMES)
TYPE_NAMES: Dict[str, str] = {option: name for option, (name, _) in {**_HOMES, **_INSIDE}.items()}


def file_type(option: str) -> "Type[OptionFile]":
    """The type of the file that ``option`` points to, or that lies where it points to.

    Raises:
        KeyError: If there is no such option.
    """
    name, module = {**_HOMES, **_INSIDE}[option]
    found: Type[OptionFile] = getattr(
        importlib.import_module(f"ascend_session.option_files.{module}"), name
    )
    return found

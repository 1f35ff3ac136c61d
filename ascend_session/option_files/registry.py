"""The options that take a file as an object, and the type of that object."""

import importlib
from typing import TYPE_CHECKING, Type

if TYPE_CHECKING:
    from ascend_session.option_files.base import OptionFile

TYPE_NAMES = {
    "op_precision_mode": "OpPrecision",
    "modify_mixlist": "MixList",
    "customize_dtypes": "CustomDtypes",
    "fusion_switch_file": "FusionSwitch",
    "op_debug_config": "OpDebugConfig",
    "aoe_config_file": "AoeConfigFile",
}
"""``{option: name of its type in ascend_session.option_files}``."""


def file_type(option: str) -> "Type[OptionFile]":
    """Return the type of the file that ``option`` points to.

    Raises:
        KeyError: If the option does not point to such a file.
    """
    package = importlib.import_module("ascend_session.option_files")
    kind: Type[OptionFile] = getattr(package, TYPE_NAMES[option])
    return kind

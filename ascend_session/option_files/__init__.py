"""The files that options point to: typed objects, readers, checkers and writers.

Each reader takes exactly what the vendor's parser takes, and each ``check`` says what that parser
would skip or take differently without telling. Names are loaded when they are first used, for
every configuration looks in here.
"""

from typing import TYPE_CHECKING, Type

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.option_files.aoe_config import AoeConfigFile as AoeConfigFile
    from ascend_session.option_files.base import OptionFile as OptionFile
    from ascend_session.option_files.customize_dtypes import DTYPES as DTYPES
    from ascend_session.option_files.customize_dtypes import CustomDtypes as CustomDtypes
    from ascend_session.option_files.customize_dtypes import Dtypes as Dtypes
    from ascend_session.option_files.fusion_switch import FusionSwitch as FusionSwitch
    from ascend_session.option_files.mixlist import LISTS as LISTS
    from ascend_session.option_files.mixlist import MixList as MixList
    from ascend_session.option_files.mixlist import built_in_lists as built_in_lists
    from ascend_session.option_files.op_debug import DEBUG_ITEMS as DEBUG_ITEMS
    from ascend_session.option_files.op_debug import OpDebugConfig as OpDebugConfig
    from ascend_session.option_files.op_precision import MODES as MODES
    from ascend_session.option_files.op_precision import OpPrecision as OpPrecision
    from ascend_session.option_files.op_precision import implemented_modes as implemented_modes
    from ascend_session.option_files.op_precision import with_mode as with_mode

_NAMES = {
    "aoe_config": ("AoeConfigFile",),
    "base": ("OptionFile",),
    "customize_dtypes": ("DTYPES", "CustomDtypes", "Dtypes"),
    "fusion_switch": ("FusionSwitch",),
    "mixlist": ("LISTS", "MixList", "built_in_lists"),
    "op_debug": ("DEBUG_ITEMS", "OpDebugConfig"),
    "op_precision": ("MODES", "OpPrecision", "implemented_modes", "with_mode"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

TYPE_NAMES = {
    "op_precision_mode": "OpPrecision",
    "modify_mixlist": "MixList",
    "customize_dtypes": "CustomDtypes",
    "fusion_switch_file": "FusionSwitch",
    "op_debug_config": "OpDebugConfig",
    "aoe_config_file": "AoeConfigFile",
}
"""The options that take the content of a file as an object, and the type of that object."""

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())


def file_type(option: str) -> "Type[OptionFile]":
    """Return the type of the file that ``option`` points to.

    Raises:
        KeyError: If there is no such option.
    """
    kind: Type[OptionFile] = __getattr__(TYPE_NAMES[option])
    return kind

"""The files that options point to: typed objects, readers, checkers and writers.

Each reader takes exactly what the vendor's parser takes, and each ``check`` says what that parser
would skip or take differently without telling.
"""

from ascend_session.option_files.aoe_config import AoeConfigFile
from ascend_session.option_files.base import OptionFile
from ascend_session.option_files.customize_dtypes import CustomDtypes, Dtypes
from ascend_session.option_files.fusion_switch import FusionSwitch, Switching
from ascend_session.option_files.mixlist import LISTS, MixList, Policy
from ascend_session.option_files.op_cache import OpCache
from ascend_session.option_files.op_debug import DEBUG_ITEMS, OpDebugConfig
from ascend_session.option_files.op_precision import MODES, OpPrecision
from ascend_session.option_files.precedence import Decision, decide_by_select
from ascend_session.option_files.remarks import Remark
from ascend_session.option_files.toolkit import built_in_lists, implemented_modes

__all__ = [
    "DEBUG_ITEMS",
    "LISTS",
    "MODES",
    "AoeConfigFile",
    "CustomDtypes",
    "Decision",
    "Dtypes",
    "FusionSwitch",
    "MixList",
    "OpCache",
    "OpDebugConfig",
    "OpPrecision",
    "OptionFile",
    "Policy",
    "Remark",
    "Switching",
    "built_in_lists",
    "decide_by_select",
    "implemented_modes",
]

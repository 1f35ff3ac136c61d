from .aoe_config import AoeConfigFile as AoeConfigFile
from .base import OptionFile as OptionFile
from .customize_dtypes import CustomDtypes as CustomDtypes
from .customize_dtypes import Dtypes as Dtypes
from .fusion_switch import FusionSwitch as FusionSwitch
from .mixlist import MixList as MixList
from .op_debug import OpDebugConfig as OpDebugConfig
from .op_precision import OpPrecision as OpPrecision

from .ascend_config import AscendConfig as AscendConfig
from .grammars.profiling_options import ProfilingOptions as ProfilingOptions
from .options import DumpConfig as DumpConfig
from .options import DynamicInputConfig as DynamicInputConfig
from .options import ExperimentalConfig as ExperimentalConfig
from .options import GraphMemoryOptimizeConfig as GraphMemoryOptimizeConfig
from .options import MemoryConfig as MemoryConfig
from .options import ProfilingConfig as ProfilingConfig

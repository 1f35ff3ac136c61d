"""One ``with`` block around TensorFlow on Ascend; the same script runs where there is none.

Names are loaded when they are first used: importing this package imports neither TensorFlow nor
anything else that is slow.
"""

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ascend_session import hccl as hccl
    from ascend_session import training as training
    from ascend_session.cluster.rank_table import RankTable as RankTable
    from ascend_session.config.ascend_config import AscendConfig as AscendConfig
    from ascend_session.config.grammars.profiling_options import (
        ProfilingOptions as ProfilingOptions,
    )
    from ascend_session.config.options import DumpConfig as DumpConfig
    from ascend_session.config.options import DynamicInputConfig as DynamicInputConfig
    from ascend_session.config.options import ExperimentalConfig as ExperimentalConfig
    from ascend_session.config.options import (
        GraphMemoryOptimizeConfig as GraphMemoryOptimizeConfig,
    )
    from ascend_session.config.options import MemoryConfig as MemoryConfig
    from ascend_session.config.options import ProfilingConfig as ProfilingConfig
    from ascend_session.errors import AscendConfigWarning as AscendConfigWarning
    from ascend_session.errors import AscendError as AscendError
    from ascend_session.errors import AuditError as AuditError
    from ascend_session.errors import BackendError as BackendError
    from ascend_session.errors import CollectiveError as CollectiveError
    from ascend_session.errors import ConfigError as ConfigError
    from ascend_session.errors import DeviceError as DeviceError
    from ascend_session.errors import DeviceTimeoutError as DeviceTimeoutError
    from ascend_session.errors import FanOutError as FanOutError
    from ascend_session.errors import InitializationError as InitializationError
    from ascend_session.errors import JobError as JobError
    from ascend_session.errors import LifecycleError as LifecycleError
    from ascend_session.errors import PreflightError as PreflightError
    from ascend_session.errors import ResultError as ResultError
    from ascend_session.errors import ShutdownError as ShutdownError
    from ascend_session.errors import UnsupportedError as UnsupportedError
    from ascend_session.failures import RetryPolicy as RetryPolicy
    from ascend_session.fanout import FanOut as FanOut
    from ascend_session.fanout import fan_out as fan_out
    from ascend_session.hardware.devices import device_count as device_count
    from ascend_session.hardware.devices import devices as devices
    from ascend_session.hardware.devices import is_available as is_available
    from ascend_session.launcher.api import launch as launch
    from ascend_session.launcher.config import LaunchConfig as LaunchConfig
    from ascend_session.launcher.result import LaunchResult as LaunchResult
    from ascend_session.session import AscendSystem as AscendSystem
    from ascend_session.session import ascend_session as ascend_session
    from ascend_session.session import ascend_system as ascend_system
    from ascend_session.session import current_system as current_system

__version__ = "0.1.0"

_HOMES = {
    "AscendConfig": "config.ascend_config",
    "AscendConfigWarning": "errors",
    "AscendError": "errors",
    "AscendSystem": "session",
    "AuditError": "errors",
    "BackendError": "errors",
    "CollectiveError": "errors",
    "ConfigError": "errors",
    "DeviceError": "errors",
    "DeviceTimeoutError": "errors",
    "DumpConfig": "config.options",
    "DynamicInputConfig": "config.options",
    "ExperimentalConfig": "config.options",
    "GraphMemoryOptimizeConfig": "config.options",
    "FanOut": "fanout",
    "FanOutError": "errors",
    "InitializationError": "errors",
    "JobError": "errors",
    "LaunchConfig": "launcher.config",
    "LaunchResult": "launcher.result",
    "LifecycleError": "errors",
    "MemoryConfig": "config.options",
    "PreflightError": "errors",
    "ProfilingConfig": "config.options",
    "ProfilingOptions": "config.grammars.profiling_options",
    "RankTable": "cluster.rank_table",
    "ResultError": "errors",
    "RetryPolicy": "failures",
    "ShutdownError": "errors",
    "UnsupportedError": "errors",
    "ascend_session": "session",
    "ascend_system": "session",
    "current_system": "session",
    "device_count": "hardware.devices",
    "devices": "hardware.devices",
    "fan_out": "fanout",
    "is_available": "hardware.devices",
    "launch": "launcher.api",
}

# Modules that are used by their own names: ascend_session.hccl.allreduce(...).
_MODULES = ("hccl", "training")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        from ascend_session.text import did_you_mean

        near = None if name.startswith("_") else did_you_mean(name, __all__, near=0.8)
        hint = f"\n  hint: Did you mean {near}?" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})

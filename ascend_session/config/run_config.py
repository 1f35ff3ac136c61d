"""The way to the vendor's NPURunConfig: its keyword arguments, with its own part classes.

The vendor's package is never imported here: when the caller has imported it (as one who calls
NPURunConfig has), its classes are found among the loaded modules; otherwise the parts stay ours.
Source: npu_config.py; guides/facts/adapter.md#npurunconfig-and-npuestimator.
"""

import sys
from typing import Any, Dict, List, Mapping

from ascend_session.config.file_store import FileStore
from ascend_session.config.model import ConfigModel, ConfigPart
from ascend_session.config.option import adapter_options
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding

_VENDOR_MODULE = "npu_bridge.estimator.npu.npu_config"


def run_config_kwargs(config: ConfigModel) -> Dict[str, Any]:
    """Give the keyword arguments for NPURunConfig; see `AscendConfig.to_run_config_kwargs`."""
    raw_only = {option.name for option in adapter_options(type(config)) if option.raw_only}
    problems = [
        Finding(ERROR, f"{name}={value!r}: NPURunConfig has no argument of this name.", option=name)
        for name, value in config.given().items()
        if name in raw_only
    ]
    problems += find_ruined_options(config.given())
    if problems:
        raise ConfigError.of(problems, "what NPURunConfig can be given")
    stored = FileStore().stored(config)
    return {name: _argument(name, value) for name, value in stored.given().items()}


def find_ruined_options(given: Mapping[str, Any]) -> List[Finding]:
    """Report what NPURunConfig takes and NPUEstimator then ruins."""
    if "compress_weight_conf" not in given:
        return []
    return [
        Finding(
            ERROR,
            "compress_weight_conf through NPURunConfig aborts the process: NPUEstimator always "
            "writes enable_compress_weight beside it.",
            "Use a raw session, with to_config_proto().",
            option="compress_weight_conf",
        )
    ]


def _argument(name: str, value: Any) -> Any:
    if name == "insert_op_file":
        return value.encode()  # NPUEstimator assigns it to a bytes field as it is
    vendor = getattr(sys.modules.get(_VENDOR_MODULE), type(value).__name__, None)
    if not isinstance(value, ConfigPart) or vendor is None:
        return value
    arguments = {inner: _argument(inner, each) for inner, each in value.given().items()}
    if type(value).__name__ == "DynamicInputConfig":
        # Four mandatory arguments; one None and NPUEstimator drops all of them.
        for option in adapter_options(type(value)):
            arguments.setdefault(option.name, option.adapter)
    return vendor(**arguments)

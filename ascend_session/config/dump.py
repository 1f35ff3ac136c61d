"""DumpConfig: which tensors operators write to disk.

Source: seed 002 (initialize_system), seed 000 (accuracy comparison), npu_attrs.cc CheckPath,
checkDumpStep, checkDumpMode, checkDumpDebugMode.
"""

from typing import Optional

from typing_extensions import Literal

from ascend_session.config.model import ConfigPart
from ascend_session.config.option import option
from ascend_session.config.types import DumpLayer, DumpStep, PathText

__all__ = ["DumpConfig"]


class DumpConfig(ConfigPart):
    """Data dump and overflow detection, under the vendor's names and in the vendor's order.

    ``dump_step`` takes ``"0|3-5|10"``, a number, or a list such as ``[0, (3, 5), 10]``;
    ``dump_layer`` takes blank-separated operator names or a list of them.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    enable_dump: Optional[bool] = option("b", "session", "Turns on operator data dump.", adapter=False, seeds="2")
    dump_path: Optional[PathText] = option("s", "session", "Existing writable directory that receives dump files.", seeds="2")
    dump_step: Optional[DumpStep] = option("s", "session", "Steps to dump, as numbers and ranges.", seeds="2")
    dump_mode: Optional[Literal["input", "output", "all"]] = option("s", "session", "Dump inputs, outputs or both.", adapter="output", seeds="2")
    enable_dump_debug: Optional[bool] = option("b", "session", "Turns on overflow detection dump.", adapter=False, seeds="2")
    dump_debug_mode: Optional[Literal["aicore_overflow", "atomic_overflow", "all"]] = option("s", "session", "Kind of overflow to detect.", adapter="all", applies="only 'all' on Ascend 950, Atlas A3 and Atlas A2 families", seeds="2")
    dump_data: Optional[Literal["tensor", "stats"]] = option("s", "init", "Dump raw tensors or per-tensor statistics (CSV).", adapter="tensor")
    dump_layer: Optional[DumpLayer] = option("s", "session", "Space-separated operator names to restrict the dump to.")

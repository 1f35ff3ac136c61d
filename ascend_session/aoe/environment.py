"""The variables of a tuning run.

Source: seed 003 (environment variables); options_notes b; the adapter's
adapter_logger.cc: its lines belong to the module FMK, and those by which a run is followed are of
level INFO, 1, which the vendor's log does not keep by default.
"""

import os
from typing import Dict, Mapping, Optional

from ascend_session.aoe.repository import BANK
from ascend_session.config.tuning import mode_number

__all__ = ["variables_of"]

_LEVELS = ("ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL")
_WORK = "ASCEND_WORK_PATH"


def variables_of(
    mode: str,
    environ: Mapping[str, str],
    work_path: Optional[str] = None,
    bank: Optional[str] = None,
) -> Dict[str, str]:
    """What a tuning run has in its environment besides what is there.

    ``AOE_MODE`` counts where the script does not set aoe_mode itself; work_path and
    aoe_config_file have no variable.

    Args:
        mode: ``"operator"``, ``"subgraph"``, ``"gradient"`` or the manual's number.
        environ: What is there.
        work_path: Folder for result files; None means ``ASCEND_WORK_PATH``, else the working
            directory.
        bank: Folder for the tuned repository; None leaves its variables as they are.

    Raises:
        ConfigError: If it is no mode of AOE.
    """
    found = {
        "AOE_MODE": mode_number(mode),
        _WORK: os.path.abspath(work_path or environ.get(_WORK) or "."),
    }
    if bank is not None:
        found[BANK] = os.path.abspath(bank)
    if not any(environ.get(name) for name in _LEVELS):
        found["ASCEND_MODULE_LOG_LEVEL"] = "FMK=1"
    return found

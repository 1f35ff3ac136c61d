"""Jobs of several ranks on the devices of this machine: on which, and how the ranks meet."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

from ascend_session.hardware.devices import DeviceReport
from ascend_session.hardware.families import family
from hardware_tests import limits

__all__ = ["ATLAS_TRAINING", "PYTHON", "asked_of_the_launcher"]

ATLAS_TRAINING = family("910A")
# guides/facts/launch.md#jobs-without-a-rank-table
_WITHOUT_TABLE = (ATLAS_TRAINING, family("910B"))
# Before the tests take it out of the environment.
_GIVEN = os.environ.get("RANK_TABLE_FILE")

# The interpreter of the ranks; None means this one.
PYTHON: Optional[str] = None


def asked_of_the_launcher(report: DeviceReport, ranks: int) -> Dict[str, Any]:
    """How a job of so many ranks is started here, as arguments of `LaunchConfig`.

    The ranks are on the first devices, which on Atlas training are inside of one ring. They find
    each other by the table that ``RANK_TABLE_FILE`` names, if it is one of so many ranks, else
    without; a device that cannot do that skips the test.
    """
    common = {
        "python": PYTHON,
        "stall_timeout": limits.PROGRAM,
        "grace": limits.GRACE,
        # guides/facts/failures.md#waits: 10 s after the end of the last job
        "max_restarts": 2,
        "wait_for_devices": 10,
    }
    if _GIVEN and _ranks_in(_GIVEN) == ranks:
        return {**common, "rank_table": _GIVEN}
    families = {device.family for device in report.visible}
    if not families <= set(_WITHOUT_TABLE):
        pytest.skip(
            f"{' and '.join(map(str, families))} needs a rank table: name one of {ranks} ranks in "
            "RANK_TABLE_FILE"
        )
    return {**common, "no_rank_table": True}


def _ranks_in(path: str) -> int:
    """The number of ranks in a table of version 1 (A2, A3); 0 if it is none."""
    try:
        servers = json.loads(Path(path).read_text())["server_list"]
        return sum(len(server["device"]) for server in servers)
    except (OSError, ValueError, KeyError, TypeError):
        return 0

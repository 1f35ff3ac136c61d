"""Jobs of several ranks on the devices of this machine: on which, and how the ranks meet."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Optional

from hardware_tests import limits

__all__ = ["ATLAS_TRAINING", "PYTHON", "find_rank_table", "launch_settings", "why_no_job"]

# As `Device.family` has them.
ATLAS_TRAINING = "Atlas training (910A)"
# guides/facts/launch.md#jobs-without-a-rank-table
_WITHOUT_TABLE = (ATLAS_TRAINING, "A2 (910B)")
# Before the tests take it out of the environment, and go to a folder of their own.
_GIVEN = os.path.abspath(os.environ.get("RANK_TABLE_FILE") or os.devnull)

# The interpreter of the ranks; None means this one.
PYTHON: Optional[str] = None


def find_rank_table(ranks: int) -> Optional[str]:
    """Give the table that ``RANK_TABLE_FILE`` names if it is one of so many ranks, else None."""
    return _GIVEN if _ranks_in(_GIVEN) == ranks else None


def why_no_job(families: Iterable[Optional[str]], ranks: int) -> Optional[str]:
    """Say what keeps so many ranks from finding each other on such devices; None if nothing does.

    Without a table of so many ranks they meet at a chief, which not every product can.
    """
    unable = {name for name in families if name not in _WITHOUT_TABLE}
    if not unable or find_rank_table(ranks):
        return None
    if None in unable:
        who = "npu-smi does not say which product this is; unless it is Atlas training or A2, it"
    else:
        who = " and ".join(sorted(map(str, unable)))
    return f"{who} needs a rank table: name one of {ranks} ranks in RANK_TABLE_FILE"


def launch_settings(ranks: int) -> Dict[str, Any]:
    """How a job of so many ranks is started here, as arguments of `LaunchConfig`.

    The ranks are on the first devices, which on Atlas training are inside of one ring.
    """
    table = find_rank_table(ranks)
    return {
        "python": PYTHON,
        "stall_timeout": limits.PROGRAM,
        "grace": limits.GRACE,
        # guides/facts/failures.md#waits: 10 s after the end of the last job
        "max_restarts": 2,
        "wait_for_devices": 10,
        **({"rank_table": table} if table else {"no_rank_table": True}),
    }


def _ranks_in(path: str) -> int:
    """The number of ranks in a table of version 1; 0 if it is none."""
    try:
        servers = json.loads(Path(path).read_text())["server_list"]
        return sum(len(server["device"]) for server in servers)
    except (OSError, ValueError, KeyError, TypeError):
        return 0

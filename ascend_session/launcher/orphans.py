"""What to do when the guardian itself was killed: find what is left of its job by its mark.

The ranks end with the guardian, by their parent-death signal. What they started does not, and
belongs to nobody then; it is known by the rank's folder in its environment, which no other job has.
"""

import os
import time
from typing import Any, Dict, List

import psutil

from ascend_session.cluster.variables import RANK_FOLDER

__all__ = ["end_orphans"]

_PATIENCE = 10.0


def end_orphans(attempt_folder: str) -> List[str]:
    """Kills every process of an attempt whose guardian has died.

    Args:
        attempt_folder: The attempt's own folder, absolute.

    Returns:
        Those that did not end, each as pid and command.
    """
    limit = time.monotonic() + _PATIENCE
    found = _of_attempt(attempt_folder)
    while found and time.monotonic() < limit:
        for process in found:
            try:
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(found, timeout=0.2)
        found = _of_attempt(attempt_folder)
    return [f"{process.pid} ({process.info['name']})" for process in found]


def _of_attempt(folder: str) -> List[Any]:
    found = []
    for process in psutil.process_iter(["name", "environ", "status"]):
        info: Dict[str, Any] = vars(process)["info"]
        place = (info["environ"] or {}).get(RANK_FOLDER, "")
        is_ours = os.path.dirname(place) == folder
        if is_ours and info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found

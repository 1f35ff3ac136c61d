"""The variables that a rank gets from the launcher, and those that it must not inherit."""

from typing import Dict

from ascend_session.cluster.variables import COORDINATOR, PORT, RANK_FOLDER

__all__ = ["CHIEF_FAMILY", "LOG_PATH", "LONGEST_ID", "OWNED", "RANK_FOLDER", "WORK_PATH"]

LOG_PATH = "ASCEND_PROCESS_LOG_PATH"
WORK_PATH = "ASCEND_WORK_PATH"

# options_notes.md, section b: with a longer JOB_ID GE refuses to initialise.
LONGEST_ID = 128

# launch_facts.md, A6
CHIEF_FAMILY = (
    "CM_CHIEF_IP",
    "CM_CHIEF_PORT",
    "CM_CHIEF_DEVICE",
    "CM_WORKER_SIZE",
    "CM_WORKER_IP",
)

_BY_RANK = "A rank's number and device follow from processes and devices."
_BY_ITSELF = "The launcher takes free ports by itself."
_BY_TABLE = "Give rank_table, or no_rank_table with chief_ip and chief_port."

# What only the launcher says, and what to do instead of giving it in env.
OWNED: Dict[str, str] = {
    "RANK_ID": _BY_RANK,
    "RANK_SIZE": _BY_RANK,
    "LOCAL_RANK": _BY_RANK,
    "LOCAL_SIZE": _BY_RANK,
    "ASCEND_DEVICE_ID": _BY_RANK,
    "DEVICE_ID": _BY_RANK,
    "RANK_TABLE_FILE": _BY_TABLE,
    **dict.fromkeys(CHIEF_FAMILY, _BY_TABLE),
    "JOB_ID": "Give job_id.",
    "ASCEND_SESSION_BACKEND": "Give backend.",
    RANK_FOLDER: "Give log_dir.",
    COORDINATOR: "Give coordinator for several nodes; for one the launcher takes free ports.",
    PORT: _BY_ITSELF,
    # The launcher itself counts by them.
    "ASCEND_RT_VISIBLE_DEVICES": "Give devices, or export it before the launch.",
    "ASCEND_SESSION_HOST_ROOT": "Export it before the launch.",
    "ASCEND_SESSION_STUB_DEVICES": "Give processes, or export it before the launch.",
}

"""Variables that the launcher sets for its ranks, and what to do instead of setting them."""

import re
from typing import Dict

from ascend_session.backends import BACKEND_VARIABLE, STUB_DEVICES_VARIABLE
from ascend_session.cluster.variables import GRACE, INDEPENDENT, RENDEZVOUS
from ascend_session.rank_folder import LAUNCHED, RANK_FOLDER
from ascend_session.spelling import as_message, option
from ascend_session.witness import RECORD_VARIABLE, SET_VARIABLE

HIGHEST_PORT = 65520
"""Largest port allowed for ``CM_CHIEF_PORT``."""

_LONGEST_GIVEN_ID = 128 - 8  # a later attempt adds its number

CHIEF_FAMILY = (
    "CM_CHIEF_IP",
    "CM_CHIEF_PORT",
    "CM_CHIEF_DEVICE",
    "CM_WORKER_SIZE",
    "CM_WORKER_IP",
)

_BY_RANK = f"A rank's number and device follow from {option('processes')} and {option('devices')}."
_BY_TABLE = (
    f"Give {option('rank_table')}, or {option('no_rank_table')} with {option('chief_ip')} and "
    f"{option('chief_port')}."
)

# Inherited as they are, for the launcher itself goes by them.
_KEPT = {
    "ASCEND_RT_VISIBLE_DEVICES": f"Give {option('devices')}, or export it before the launch.",
    INDEPENDENT: f"Give {option('independent')}, or export it before the launch.",
    SET_VARIABLE: f"Give {option('set')}, or export it before the launch.",
    "ASCEND_SESSION_HOST_ROOT": "Export it before the launch.",
    STUB_DEVICES_VARIABLE: f"Give {option('processes')}, or export it before the launch.",
}
SET_IN_RANKS = {
    "RANK_ID": _BY_RANK,
    "RANK_SIZE": _BY_RANK,
    "LOCAL_RANK": _BY_RANK,
    "LOCAL_SIZE": _BY_RANK,
    "ASCEND_DEVICE_ID": _BY_RANK,
    "DEVICE_ID": _BY_RANK,
    "RANK_TABLE_FILE": _BY_TABLE,
    **dict.fromkeys(CHIEF_FAMILY, _BY_TABLE),
    "JOB_ID": f"Give {option('job_id')}.",
    BACKEND_VARIABLE: f"Give {option('backend')}.",
    RANK_FOLDER: f"Give {option('log_dir')}.",
    GRACE: f"Give {option('grace')}.",
    RENDEZVOUS: "The launcher makes up a new one for each attempt.",
    LAUNCHED: _BY_RANK,
    RECORD_VARIABLE: f"Give {option('record')}.",
}
"""Those that the launcher sets itself, which ranks do not inherit."""

OWNED: Dict[str, str] = {name: as_message(hint) for name, hint in {**SET_IN_RANKS, **_KEPT}.items()}
"""Variables that nobody may give in ``env``, and what to do instead."""


def job_id_fault(text: str) -> str:
    """Say why ``text`` is no ``JOB_ID``, as the end of a sentence; empty if it is one."""
    if not re.fullmatch("[A-Za-z0-9_-]+", text):
        return "has characters other than letters, digits, - and _"
    if re.fullmatch("0[0-9]*", text):
        return "is a number that begins with 0"
    if len(text) > _LONGEST_GIVEN_ID:
        return f"has {len(text)} characters; it may have {_LONGEST_GIVEN_ID}"
    return ""

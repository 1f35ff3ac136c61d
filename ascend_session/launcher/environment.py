"""The environment of a rank: what the launcher sets, and what a rank must not inherit.

Source: launch_facts.md, A2 rule 6 (physical ids in tables), A6 (``CM_*`` family; order in which a
process looks for its device; variables that switch collectives off without a word), B4 (logs);
options_notes.md, section b (``POD_NAME``, ``TF_CONFIG``; a ``JOB_ID`` has letters, digits, ``-``
and ``_``, is not all digits with a leading 0, and has at most 128 characters).

There is a ``JOB_ID`` for each attempt, so that two jobs never share what the vendor names by it:
363 public scripts set one themselves, mostly the constant 10087 (launch_facts.md, C).
"""

import os
import re
import time
from typing import TYPE_CHECKING, Dict, List, Mapping

from ascend_session.cluster.schedulers import IDENTITY_VARIABLES, has_scheduler
from ascend_session.cluster.variables import (
    COORDINATOR,
    RANK_FOLDER,
    RENDEZVOUS,
    read_task,
    read_task_type,
)
from ascend_session.errors import JobError
from ascend_session.launcher.devices import STUB_DEVICES_VARIABLE

if TYPE_CHECKING:
    from ascend_session.launcher.plan import Plan

LOG_PATH = "ASCEND_PROCESS_LOG_PATH"
WORK_PATH = "ASCEND_WORK_PATH"

# options_notes.md, section b: with a longer JOB_ID GE refuses to initialise.
LONGEST_ID = 128

# launch_facts.md, A6
HIGHEST_PORT = 65520
CHIEF_FAMILY = (
    "CM_CHIEF_IP",
    "CM_CHIEF_PORT",
    "CM_CHIEF_DEVICE",
    "CM_WORKER_SIZE",
    "CM_WORKER_IP",
)

_BY_RANK = "A rank's number and device follow from processes and devices."
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
    COORDINATOR: "Give coordinator for several nodes; ranks of one node need none.",
    RENDEZVOUS: "The launcher makes up a new one for each attempt.",
    # The launcher itself counts by them.
    "ASCEND_RT_VISIBLE_DEVICES": "Give devices, or export it before the launch.",
    "ASCEND_SESSION_HOST_ROOT": "Export it before the launch.",
    "ASCEND_SESSION_STUB_DEVICES": "Give processes, or export it before the launch.",
}


# Where Pythons find the stand-ins for the vendor's packages (compat/inherited).
_STAND_INS = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "compat", "inherited"
)

PLOG_FOLDER, WORK_FOLDER = "plog", "work"


def own_variables(plan: "Plan", local: int) -> Dict[str, str]:
    """Set what only the launcher says: who a rank is, and on what it runs.

    A job with a chief has no ``RANK_ID`` and no ``RANK_SIZE``, which would switch collectives off;
    there ``LOCAL_RANK`` is the rank.

    Args:
        plan: The attempt, with all but its ranks.
        local: The rank's number on this node, from 0.
    """
    device = plan.devices[local]
    # The stub's devices have no nodes; scripts that read DEVICE_ID find the same number there.
    physical = device.logical if device.physical is None else device.physical
    own = {
        "ASCEND_SESSION_BACKEND": plan.backend,
        "JOB_ID": plan.job_id,
        "LOCAL_RANK": str(local),
        "LOCAL_SIZE": str(len(plan.devices)),
        "ASCEND_DEVICE_ID": str(device.logical),
        "DEVICE_ID": str(physical),
    }
    if plan.chief is None:
        own["RANK_ID"] = str(plan.first_rank + local)
        own["RANK_SIZE"] = str(plan.size)
    else:
        own["CM_CHIEF_IP"] = own["CM_WORKER_IP"] = plan.chief.address
        own["CM_CHIEF_PORT"] = str(plan.chief.port)
        own["CM_CHIEF_DEVICE"] = str(plan.chief.device)
        own["CM_WORKER_SIZE"] = str(plan.size)
    if plan.rank_table is not None:
        own["RANK_TABLE_FILE"] = plan.rank_table
    if plan.stub_devices is not None:
        own[STUB_DEVICES_VARIABLE] = str(plan.stub_devices)
    if plan.nodes.coordinator is not None:
        own[COORDINATOR] = plan.nodes.coordinator
    if plan.rendezvous is not None:
        own[RENDEZVOUS] = plan.rendezvous
    return own


def defaults(folder: str) -> Dict[str, str]:
    """Set what a rank gets unless the user gives it in ``env``; nobody may give the folder itself.

    Args:
        folder: The rank's own folder, absolute.
    """
    return {
        "PYTHONUNBUFFERED": "1",
        RANK_FOLDER: folder,
        LOG_PATH: os.path.join(folder, PLOG_FOLDER),
        WORK_PATH: os.path.join(folder, WORK_FOLDER),
    }


def for_children(environment: Mapping[str, str]) -> Dict[str, str]:
    """Set what Pythons need that a program other than Python starts, where there is no device.

    Args:
        environment: The program's.
    """
    if not os.path.isdir(_STAND_INS):  # an installation without compat
        return {}
    path = environment.get("PYTHONPATH")
    return {"PYTHONPATH": _STAND_INS + (os.pathsep + path if path else "")}


_WITH_CHIEF = "it must not be set in a job without a rank table, whose ranks would train alone"
_OF_LAUNCHER = "it numbers the launcher among what its scheduler has started, and no rank"
_FOR_ALL = "all ranks would take the same identity from it"


def replaced_folders(environ: Mapping[str, str], given: Mapping[str, str]) -> List[str]:
    """Report folders that the launcher's environment names and ranks do not use, in sentences.

    Args:
        environ: The launcher's environment.
        given: What the user adds.
    """
    return [
        f"{name}={environ[name]!r} is replaced by a folder for each rank; to keep it, give it in "
        "env."
        for name in (LOG_PATH, WORK_PATH)
        if environ.get(name) and name not in given
    ]


def removed_variables(
    environ: Mapping[str, str], own: Mapping[str, str], given: Mapping[str, str]
) -> Dict[str, str]:
    """Find the variables that are taken away, each with the reason as the end of a sentence.

    Args:
        environ: The launcher's environment.
        own: What the launcher says in a rank; replaces what was inherited, and is not listed.
        given: What the user adds; is never taken away.
    """
    reasons = _reasons(own)
    if not has_scheduler(environ):
        # A batch script is started once, and what the ranks start may need what it has.
        for name in IDENTITY_VARIABLES:
            reasons.pop(name, None)
    if "TF_CONFIG" in reasons and read_task(environ) is None:
        del reasons["TF_CONFIG"]
    return {
        name: why
        for name, why in sorted(reasons.items())
        if name in environ and name not in own and name not in given
    }


def refuse_task(environ: Mapping[str, str], size: int) -> None:
    """Refuse a ``TF_CONFIG`` whose task has no place in a job of so many ranks.

    Raises:
        JobError: If the task is ``ps``, is ``evaluator`` for several ranks, or is no object.
    """
    given = read_task(environ)
    if given is None:
        return
    if not isinstance(given, dict):
        message = "The task in TF_CONFIG is no object, on which the adapter ends the process."
    elif read_task_type(environ) == "ps":
        message = 'TF_CONFIG says "ps", for which the adapter does not initialise the device.'
    elif read_task_type(environ) == "evaluator" and size > 1:
        message = (
            'TF_CONFIG says "evaluator", for which collectives are off: ranks would train alone.'
        )
    else:
        return
    raise JobError(message, hint="unset TF_CONFIG, or run this process without a launch.")


def _reasons(own: Mapping[str, str]) -> Dict[str, str]:
    """Say why each variable would do harm in a rank that has ``own``."""
    reasons = dict.fromkeys((name for name in OWNED if name not in _KEPT), "the launcher sets it")
    reasons.update(
        dict.fromkeys((COORDINATOR, RENDEZVOUS), "it belongs to another job, on the stub")
    )
    reasons.update(dict.fromkeys(IDENTITY_VARIABLES, _OF_LAUNCHER))
    reasons["HELP_CLUSTER"] = "it starts collectives whether or not the ranks can find each other"
    reasons.update(dict.fromkeys(CHIEF_FAMILY, "it belongs to another job, one with a chief"))
    if "CM_CHIEF_IP" in own:
        reasons.update(dict.fromkeys(("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"), _WITH_CHIEF))
    elif "RANK_TABLE_FILE" in own:
        with_table = "with RANK_TABLE_FILE it switches collectives off without a word"
        reasons.update(dict.fromkeys(CHIEF_FAMILY, with_table))
    else:
        reasons["RANK_TABLE_FILE"] = "a job of one rank, and one on the stub, goes without a table"
    if own.get("LOCAL_SIZE") != "1":
        reasons.update(dict.fromkeys(("POD_NAME", "TF_CONFIG"), _FOR_ALL))
    return reasons


# Inherited as they are: the launcher counts by them too.
_KEPT = ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_SESSION_HOST_ROOT", "ASCEND_SESSION_STUB_DEVICES")


# So long may one be that is given, for a later attempt adds its number.
_LONGEST_GIVEN = LONGEST_ID - 8


def new_job_id() -> str:
    """Make up a legal ``JOB_ID`` that begins with the local time and that no other launch has."""
    return f"job_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"


def id_of_attempt(given: str, attempt: int) -> str:
    """Give the ``JOB_ID`` of an attempt, from 1, at a job whose id the user gave."""
    return given if attempt == 1 else f"{given}_{attempt}"


def job_id_fault(text: str) -> str:
    """Say why ``text`` is no ``JOB_ID``, as the end of a sentence; empty if it is one."""
    if not re.fullmatch("[A-Za-z0-9_-]+", text):
        return "has characters other than letters, digits, - and _"
    if re.fullmatch("0[0-9]*", text):
        return "is a number that begins with 0"
    if len(text) > _LONGEST_GIVEN:
        return f"has {len(text)} characters; it may have {_LONGEST_GIVEN}"
    return ""

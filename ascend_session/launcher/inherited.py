"""What a rank does not inherit from the launcher's environment, and why.

Source: launch_facts.md, A6 (variables that switch collectives off without a word);
options_notes.md, section b (``POD_NAME``, ``TF_CONFIG``).
"""

from typing import Dict, List, Mapping

from ascend_session.cluster.schedulers import IDENTITY, is_claimed
from ascend_session.cluster.variables import COORDINATOR, PORT, task, task_type
from ascend_session.errors import JobError
from ascend_session.launcher.variables import CHIEF_FAMILY, LOG_PATH, OWNED, WORK_PATH

__all__ = ["moved", "refuse_task", "removed"]

_WITH_CHIEF = "it must not be set in a job without a rank table, whose ranks would train alone"
_OF_LAUNCHER = "it numbers the launcher among what its scheduler has started, and no rank"
_FOR_ALL = "all ranks would take the same identity from it"


def moved(environ: Mapping[str, str], given: Mapping[str, str]) -> List[str]:
    """A sentence for each folder that the launcher's environment names and ranks do not use.

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


def removed(
    environ: Mapping[str, str], own: Mapping[str, str], given: Mapping[str, str]
) -> Dict[str, str]:
    """The variables that are taken away, each with the reason as the end of a sentence.

    Args:
        environ: The launcher's environment.
        own: What the launcher says in a rank; replaces what was inherited, and is not listed.
        given: What the user adds; is never taken away.
    """
    reasons = _reasons(own)
    if not is_claimed(environ):
        # A batch script is started once, and what the ranks start may need what it has.
        for name in IDENTITY:
            reasons.pop(name, None)
    if "TF_CONFIG" in reasons and task(environ) is None:
        del reasons["TF_CONFIG"]
    return {
        name: why
        for name, why in sorted(reasons.items())
        if name in environ and name not in own and name not in given
    }


def refuse_task(environ: Mapping[str, str], size: int) -> None:
    """Refuses a ``TF_CONFIG`` whose task has no place in a job of so many ranks.

    Raises:
        JobError: If the task is ``ps``, is ``evaluator`` for several ranks, or is no object.
    """
    found = task(environ)
    if found is None:
        return
    if not isinstance(found, dict):
        said = "The task in TF_CONFIG is no object, on which the adapter ends the process."
    elif task_type(environ) == "ps":
        said = 'TF_CONFIG says "ps", for which the adapter does not initialise the device.'
    elif task_type(environ) == "evaluator" and size > 1:
        said = 'TF_CONFIG says "evaluator", for which collectives are off: ranks would train alone.'
    else:
        return
    raise JobError(said, hint="unset TF_CONFIG, or run this process without a launch.")


def _reasons(own: Mapping[str, str]) -> Dict[str, str]:
    """Why each variable would do harm in a rank that has ``own``."""
    found = dict.fromkeys((name for name in OWNED if name not in _KEPT), "the launcher sets it")
    found.update(dict.fromkeys((COORDINATOR, PORT), "it belongs to another job, on the stub"))
    found.update(dict.fromkeys(IDENTITY, _OF_LAUNCHER))
    found["HELP_CLUSTER"] = "it starts collectives whether or not the ranks can find each other"
    found.update(dict.fromkeys(CHIEF_FAMILY, "it belongs to another job, one with a chief"))
    if "CM_CHIEF_IP" in own:
        found.update(dict.fromkeys(("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"), _WITH_CHIEF))
    elif "RANK_TABLE_FILE" in own:
        with_table = "with RANK_TABLE_FILE it switches collectives off without a word"
        found.update(dict.fromkeys(CHIEF_FAMILY, with_table))
    else:
        found["RANK_TABLE_FILE"] = "a job of one rank, and one on the stub, goes without a table"
    if own.get("LOCAL_SIZE") != "1":
        found.update(dict.fromkeys(("POD_NAME", "TF_CONFIG"), _FOR_ALL))
    return found


# Inherited as they are: the launcher counts by them too.
_KEPT = ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_SESSION_HOST_ROOT", "ASCEND_SESSION_STUB_DEVICES")

"""The ranks of this node: what each runs, its files and CPUs, and what is in its environment.

There is a ``JOB_ID`` for each attempt, so that two jobs never share what the vendor names by it:
public scripts set one themselves, mostly the same constant
(guides/facts/launch.md#scripts-for-eight-devices). GE refuses to initialise with one that has more
than 128 characters, others than letters, digits, ``-`` and ``_``, or only digits with a leading 0.

Source: guides/facts/launch.md#variables-of-a-rank,
guides/facts/launch.md#collectives-that-are-switched-off, guides/facts/devices.md#logs
"""

import json
import os
import shlex
import sys
from typing import Dict, Mapping, NamedTuple, Sequence, Tuple, Type

from ascend_session.backends import BACKEND_VARIABLE
from ascend_session.backends.base import Backend
from ascend_session.cluster.schedulers import IDENTITY_VARIABLES, has_scheduler
from ascend_session.cluster.variables import (
    GRACE,
    INDEPENDENT,
    RENDEZVOUS,
    read_task,
    read_task_type,
)
from ascend_session.errors import JobError
from ascend_session.launcher.plan.config import CHIEF_FAMILY, SET_IN_RANKS, LaunchConfig
from ascend_session.launcher.plan.cpus import decide_cpus
from ascend_session.launcher.plan.decided import Decided, Request, make_absolute
from ascend_session.launcher.plan.devices import RankDevice
from ascend_session.launcher.plan.nodes import Nodes
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.plan.rendezvous import Rendezvous
from ascend_session.rank_folder import (
    LAUNCHED,
    PLOG_FOLDER,
    RANK_FOLDER,
    STDERR_NAME,
    STDOUT_NAME,
    WORK_FOLDER,
)
from ascend_session.spelling import option
from ascend_session.witness import RECORD_VARIABLE, SET_VARIABLE, STARTUP, put_first

LOG_PATH = "ASCEND_PROCESS_LOG_PATH"
WORK_PATH = "ASCEND_WORK_PATH"

# What is shared, and yet says which job a rank belongs to; the others differ by rank.
_OF_SCRIPT = ("LOCAL_SIZE", "RANK_SIZE", *CHIEF_FAMILY)

# The longest that HCCL takes on every product, for ranks that wait for one in a debugger.
# Source: guides/facts/launch.md#variables-of-a-rank
_PATIENT = {"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EXEC_TIMEOUT": "17340"}

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Where Pythons find the stand-ins for the vendor's packages.
_STAND_INS = os.path.join(_PACKAGE, "compat", "inherited")


class LocalRanks(NamedTuple):
    """What is started on this node.

    Attributes:
        ranks: The ranks, in order.
        removed: Variables that they do not inherit, each with the reason.
        bound: Where their CPUs come from, or why they have none of their own, in a few words.
    """

    ranks: Tuple[LaunchRank, ...]
    removed: Mapping[str, str]
    bound: str


class JobFacts(NamedTuple):
    """What is decided of a job before its ranks are.

    Attributes:
        backend: The class of the backend.
        nodes: This node among those of the job.
        devices: The device of each rank of this node.
        job_id: ``JOB_ID``.
        rendezvous: How the ranks find each other.
        command: What each rank runs; the first word is an absolute path.
        cwd: Where it runs, absolute.
        folder: The attempt's own folder, absolute; the ranks' are below that.
    """

    backend: Type[Backend]
    nodes: Nodes
    devices: Sequence[RankDevice]
    job_id: str
    rendezvous: Rendezvous
    command: Tuple[str, ...]
    cwd: str
    folder: str


def decide_ranks(request: Request, job: JobFacts) -> Decided[LocalRanks]:
    """Decide what each rank of this node gets.

    A job with a chief has no ``RANK_SIZE`` and no ``RANK_ID``, which would switch collectives off;
    there ``LOCAL_RANK`` is the rank.
    """
    config, environ, _ = request
    backend, nodes, devices, job_id, rendezvous, command, cwd, job_folder = job
    cpus, notes_on_cpus = decide_cpus(request, backend, devices)
    local_size = len(devices)
    size = nodes.size(local_size)
    shared = {
        BACKEND_VARIABLE: backend.name,
        "JOB_ID": job_id,
        "LOCAL_SIZE": str(local_size),
        GRACE: f"{round(config.grace, 2):g}",
        **({} if rendezvous.chief else {"RANK_SIZE": str(size)}),
        **rendezvous.variables,
        **({INDEPENDENT: "1"} if config.independent else {}),
        **({SET_VARIABLE: json.dumps(dict(config.set))} if config.set else {}),
        **({} if config.record is None else {RECORD_VARIABLE: make_absolute(config.record)}),
    }
    removed = _find_removed(environ, shared, config.env)
    notes = [
        f"{name}={environ[name]!r} is overridden by one folder per rank; to keep it, give it in "
        "env."
        for name in (LOG_PATH, WORK_PATH)
        if environ.get(name) and name not in config.env
    ]
    ranks = []
    numbers = nodes.ranks(local_size)
    for local, (rank, device, own_cpus) in enumerate(zip(numbers, devices, cpus.of_ranks)):
        folder = os.path.join(job_folder, f"rank_{rank}")
        plog, work = os.path.join(folder, PLOG_FOLDER), os.path.join(folder, WORK_FOLDER)
        # Scripts that read DEVICE_ID find a number also where devices have no /dev/davinci<N>.
        physical = device.logical if device.physical is None else device.physical
        own = {
            "LOCAL_RANK": str(local),
            "ASCEND_DEVICE_ID": str(int(device.logical)),
            "DEVICE_ID": str(int(physical)),
            **({} if rendezvous.chief else {"RANK_ID": str(rank)}),
        }
        if size == 1:
            # It may be a script that starts ranks itself, which have to know what it has set.
            exported = {**{name: shared[name] for name in _OF_SCRIPT if name in shared}, **own}
            own[LAUNCHED] = " ".join(f"{name}={value}" for name, value in sorted(exported.items()))
        variables = {
            "TF_CPP_MIN_LOG_LEVEL": "1",  # without what TensorFlow says of itself when all is well
            **cpus.threads,
            **({} if config.attach is None else _PATIENT),
            **{name: value for name, value in environ.items() if name not in removed},
            "PYTHONUNBUFFERED": "1",
            RANK_FOLDER: folder,
            LOG_PATH: plog,
            WORK_PATH: work,
            # The vendor's examples export these two, and many scripts read them: the server's
            # number, and the rank's, by which scripts choose their part of the data.
            "RANK_INDEX": str(nodes.rank),
            "DEVICE_INDEX": str(rank),
            **config.env,
            **shared,
            **own,
            **backend.device_variables(int(device.logical), local_size, environ),
        }
        path = variables.get("PYTHONPATH")
        is_installed = os.path.isdir(_STAND_INS)  # an installation may be without compat
        if config.program is not None and backend.replaces_vendor and is_installed:
            # Also the Pythons that a program other than Python starts find the stub's stand-ins.
            path = put_first(_STAND_INS, path)
        variables["PYTHONPATH"] = put_first(STARTUP, path)
        is_attached = rank == config.attach
        ranks.append(
            LaunchRank(
                rank=rank,
                command=command,
                cwd=cwd,
                device_id=device.logical,
                physical_id=device.physical,
                cpus=own_cpus,
                folder=folder,
                stdout="" if is_attached else os.path.join(folder, STDOUT_NAME),
                stderr="" if is_attached else os.path.join(folder, STDERR_NAME),
                plog=plog,
                work=work,
                changed={n: v for n, v in sorted(variables.items()) if environ.get(n) != v},
                environment=variables,
                is_attached=is_attached,
            )
        )
    return LocalRanks(tuple(ranks), removed, cpus.bound), (*notes_on_cpus, *notes)


def _find_removed(
    environ: Mapping[str, str], shared: Mapping[str, str], given: Mapping[str, str]
) -> Dict[str, str]:
    """Find the variables that ranks must not inherit, each with the reason as part of a sentence.

    Args:
        environ: The launcher's environment.
        shared: What the launcher sets alike for all ranks.
        given: What the user adds, which is never taken away.
    """
    reasons = dict.fromkeys(SET_IN_RANKS, "the launcher sets it")
    reasons[RENDEZVOUS] = "it belongs to another job, on the stub"
    reasons["HELP_CLUSTER"] = "it starts collectives whether or not the ranks can find each other"
    chief = "it belongs to another job, one with a chief"
    own = {"RANK_ID", "LOCAL_RANK", "ASCEND_DEVICE_ID", "DEVICE_ID", *shared}
    if "CM_CHIEF_IP" in shared:
        own.remove("RANK_ID")
        for name in ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"):
            reasons[name] = (
                "it must not be set in a job without a rank table, whose ranks would train alone"
            )
    elif "RANK_TABLE_FILE" in shared:
        chief = "together with RANK_TABLE_FILE it silently switches collectives off"
    else:
        reasons["RANK_TABLE_FILE"] = "a job of one rank, and one on the stub, goes without a table"
    reasons.update(dict.fromkeys(CHIEF_FAMILY, chief))
    if shared.get("LOCAL_SIZE") != "1":
        for name in ("POD_NAME", "TF_CONFIG"):
            reasons[name] = "all ranks would take the same identity from it"
    numbered = [name for name in IDENTITY_VARIABLES if name in environ]
    # A batch script is started once, and what the ranks start may need what it has.
    if numbered and has_scheduler(environ):
        why = "it describes the launcher's place in the scheduler's job, not a rank's"
        reasons.update(dict.fromkeys(numbered, why))
    if "TF_CONFIG" in environ and read_task(environ) is None:
        reasons.pop("TF_CONFIG", None)
    return {
        name: why
        for name, why in sorted(reasons.items())
        if name in environ and name not in own and name not in given
    }


def check_task(environ: Mapping[str, str], size: int) -> None:
    """Refuse a ``TF_CONFIG`` whose task has no place in a job of so many ranks.

    That is ``ps``, ``evaluator`` for several ranks, and what is no object (JobError).
    """
    task = read_task(environ) if environ.get("TF_CONFIG") else None
    if task is None:
        return
    kind = read_task_type(environ)
    if not isinstance(task, dict):
        message = "The task in TF_CONFIG is not an object; the adapter would abort the process."
    elif kind == "ps":
        message = 'TF_CONFIG says "ps", for which the adapter does not initialise the device.'
    elif kind == "evaluator" and size > 1:
        message = (
            'TF_CONFIG says "evaluator", for which collectives are off: ranks would train alone.'
        )
    else:
        return
    raise JobError(message, hint="unset TF_CONFIG, or run this process without a launch.")


def decide_working_directory(config: LaunchConfig) -> str:
    """Decide where the ranks run, as an absolute path; a folder that is not there is refused."""
    folder = make_absolute(config.cwd or os.curdir)
    if not os.path.isdir(folder):
        message = f"{option('cwd', config.cwd)}: there is no folder {folder}."
        raise JobError(message, hint="Make it first.")
    return folder


def decide_command(request: Request, folder: str) -> Tuple[str, ...]:
    """Put the command of all ranks together; its first word is the absolute path of a program.

    What is not there, or cannot be run as asked, is refused (JobError). Relative paths count from
    ``folder``, the working directory of the ranks.
    """
    config, environ = request.config, request.job_environ
    if config.program is not None:
        return (_find_program("program", config.program, folder, environ), *config.args)
    if config.python is not None:
        python = _find_program("python", config.python, folder, environ)
    elif sys.executable:
        python = sys.executable
    else:
        raise JobError(
            "This Python does not know its own program.", hint=f"Give {option('python')}."
        )
    if config.module is not None:
        return (python, "-m", config.module, *config.args)
    script = str(config.script)
    path = os.path.join(folder, script)
    if not os.path.exists(path):
        raise JobError(
            f"There is no script {path}.",
            hint="Give its path from the ranks' working directory, or an absolute one.",
        )
    if script.endswith((".sh", ".bash")):
        raise JobError(
            f"{script} is a shell script, and no Python script.",
            hint=f"Write ascend-session launch -n 1 --no-python bash {shlex.quote(script)}, if it "
            "starts the ranks itself, or -n 8, if it is one of eight; in Python, give program.",
        )
    if script.startswith("-"):  # one called -m would be taken for a module
        script = os.path.join(os.curdir, script)
    return (python, script, *config.args)


def _find_program(role: str, name: str, folder: str, environ: Mapping[str, str]) -> str:
    """Find the absolute path of a program that is named as in a shell."""
    if os.path.dirname(name):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        reason = f"{path} does not exist or is not executable"
    else:
        import shutil

        searched = environ.get("PATH") or os.defpath
        places = os.pathsep.join(os.path.join(folder, place) for place in searched.split(":"))
        path = shutil.which(name, path=places) or ""
        if path:
            return path
        reason = f"no folder of PATH={searched!r} has it"
    message = f"{option(role, name)}: {reason}."
    raise JobError(message, hint="Give the path of an executable file.")

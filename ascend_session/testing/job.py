"""A job of ranks on the stub, each of which runs a module of this package."""

import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ascend_session.errors import JobError, RanksTimeoutError
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.testing.environment import clean_environment
from ascend_session.testing.rank import DEADLINE, FOLDER

_GRACE_S = 5.0
_LATE_S = 30.0  # after which a job is stopped whose ranks have not exited at the deadline
_TAIL_BYTES = 8192


class JobEnd(NamedTuple):
    """How a job ended.

    Attributes:
        code: Exit code of the launch; 0 if every rank succeeded.
        rank: The rank that failed first; None if that is not known.
        message: Why the job failed, in one sentence.
        details: Where in its program that rank failed, or else the last lines that it wrote; as a
            launch shows it.
    """

    code: int
    rank: Optional[int]
    message: str
    details: str


def _repeats(line: str, sentence: str) -> bool:
    """True if a line has what the sentence says, as an exception's has, perhaps with a heading."""
    _, heading, rest = line.strip().rpartition(JOB_CANNOT_GO_ON)
    return (rest[1:] if heading else rest) in sentence  # the sentence begins with a capital


def run_job(
    module: str, name: str, size: int, timeout: float, folder: str, environ: Mapping[str, str]
) -> JobEnd:
    """Run ``python -m module`` as the ranks of a job on the stub, to its end.

    Args:
        module: The module, which calls `rank.enter_rank`.
        name: What it runs, for messages.
        size: Number of ranks.
        timeout: Seconds after which a rank prints where it is and exits.
        folder: Where the ranks find their work and leave results; logs are written below it.
        environ: The environment; what it says about another job is not passed on.

    Raises:
        JobError: If the job cannot be started.
        RanksTimeoutError: If the ranks did not exit in time.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    deadline = time.monotonic() + timeout
    variables = {FOLDER: folder, DEADLINE: repr(deadline)}
    options = ["-n", str(size), "--backend", "stub", "--nnodes", "1", "--show", "none", "--json"]
    options += ["--grace", str(_GRACE_S), "--log-dir", os.path.join(folder, "logs")]
    for variable in variables.items():
        options += ["--env", "=".join(variable)]
    words = [sys.executable, "-m", "ascend_session", "launch", *options, "-m", module]
    with subprocess.Popen(
        words,
        env=clean_environment(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    ) as launcher:
        try:
            out, err = launcher.communicate(timeout=timeout + _LATE_S)
        except subprocess.TimeoutExpired:
            launcher.terminate()
            out, err = launcher.communicate()
        except BaseException:
            launcher.terminate()
            launcher.communicate()
            raise
    is_late = time.monotonic() >= deadline
    try:
        result: Dict[str, Any] = json.loads(out)
    except ValueError:
        raise JobError(f"{name} could not be started as {size} ranks: {err.strip()}") from None
    if "refused" in result:
        raise JobError(result["refused"], hint=result["hint"])
    attempt = result["attempts"][-1]
    if result["code"] and is_late:
        logs = [_read_end(rank["stderr"]) for rank in attempt["ranks"]]
        outputs = "".join(f"\n\nrank {rank}:\n{log}" for rank, log in enumerate(logs) if log)
        raise RanksTimeoutError(
            f"The {size} ranks of {name} did not all return within {timeout:g} s.{outputs}",
            hint="Look for the rank that does not take part in what the others wait for, or give "
            "a longer timeout.",
        )
    cause = attempt["cause"] or {"rank": None, "said": "", "place": [], "tail": []}
    place = [line for line in cause["place"] if not _repeats(line, cause["said"])]
    details = "\n".join(place or cause["tail"])
    return JobEnd(result["code"], cause["rank"], cause["said"], details)


def _read_end(path: str) -> str:
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
            return log.read().decode(errors="replace").strip()
    except OSError:
        return ""

"""Functions and modules as the ranks of a job on the stub, each rank a new process."""

import json
import multiprocessing.spawn
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from ascend_session.errors import CollectiveError, ConfigError, JobError, RanksTimeoutError
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.files import read_end
from ascend_session.testing.rank import CALL, DEADLINE, FOLDER, name_result

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


def run_ranks(
    function: Callable[..., Any], size: int, *args: Any, timeout: float = 300.0, **kwargs: Any
) -> List[Any]:
    """Call a function in each of several ranks, and return what it returned there.

    Each rank is a new Python process of one job on the stub, whatever devices there are. As with
    ``multiprocessing`` and its method "spawn", the function is one of a module, and its
    arguments and results are pickled. When one rank raises, the others are stopped. ::

        def average(value):
            with ascend_system() as system, tf.Session() as sess:
                return sess.run(hccl.allreduce(np.float32(value + system.rank), "mean"))

        def test_the_ranks_average():
            assert run_ranks(average, 2, 3.0) == [3.5, 3.5]

    Args:
        function: What each rank calls.
        size: Number of ranks.
        *args: Its arguments.
        timeout: Seconds that all of it may take, start included. Then each rank prints
            where its main thread is, which the error contains, and exits.
        **kwargs: More arguments of the function.

    Returns:
        What the function returned, in the order of the ranks.

    Raises:
        ConfigError: If the function is not one of a module, or cannot be pickled with its
            arguments; if size or timeout is not a positive number.
        CollectiveError: If a rank exited without a result, or one that cannot be pickled.
        RanksTimeoutError: If the ranks did not return in time.
        Exception: What the function raised in the rank that failed first; its ``__cause__`` has the
            traceback there.
    """
    __tracebackhide__ = True  # pytest shows the line that calls this
    name = _check(function, size, timeout)
    module = sys.modules[getattr(function, "__module__", None) or "builtins"]
    preparation = multiprocessing.spawn.get_preparation_data("rank")
    preparation.pop("authkey")  # is not pickled, and serves processes that talk to each other
    try:
        call = pickle.dumps((function, args, kwargs))
    except Exception as error:  # pickle raises whatever the class of a value does
        raise ConfigError(
            f"{name} cannot be sent to ranks with its arguments: {error}",
            hint="Give a function of a module, and values that pickle takes.",
        ) from error
    with tempfile.TemporaryDirectory(prefix="ranks_") as folder:
        path = os.path.abspath(getattr(module, "__file__", None) or "")
        with open(os.path.join(folder, CALL), "wb") as file:
            pickle.dump((preparation, (module.__name__, path), call), file)
        ended = run_job("ascend_session.testing.rank", name, size, timeout, folder, os.environ)
        results = [_read(name_result(folder, rank)) for rank in range(size)]
    return _choose(name, ended, results)


def _check(function: Any, size: Any, timeout: Any) -> str:
    __tracebackhide__ = True
    name = getattr(function, "__qualname__", None) or repr(function)
    if not callable(function):
        raise ConfigError(
            f"run_ranks takes a function, not {function!r}.",
            hint="Write run_ranks(train, 2, *arguments_of_train).",
        )
    if "<locals>" in name or "<lambda>" in name:
        raise ConfigError(
            f"{name} is defined inside a function, where ranks, which are processes of their own, "
            "do not find it.",
            hint="Define it at the top level of a module.",
        )
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ConfigError(f"A job has 1 rank or more, not {size!r}.", hint="Write run_ranks(f, 2).")
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout > 0:
        raise ConfigError(
            f"timeout={timeout!r} is not a number of seconds above 0.", hint="Write timeout=300."
        )
    return name


class _RankTracebackError(Exception):
    """The cause of an exception that comes from a rank: the traceback there, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _read(path: str) -> Optional[Any]:
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return None


def _choose(name: str, ended: JobEnd, results: List[Any]) -> List[Any]:
    __tracebackhide__ = True
    raised = [rank for rank, result in enumerate(results) if result and not result[0]]
    if ended.code == 0 and not raised and None not in results:
        return [result[1] for result in results]
    first = ended.rank
    if first is None:
        lost = [rank for rank, result in enumerate(results) if result is None]
        first = [*raised, *lost, 0][0]
    if first in raised:
        error, remote_traceback = results[first][1:]
        # Whether TensorFlow's error for what all ranks hear can be pickled is a matter of luck.
        if error is not None and JOB_CANNOT_GO_ON not in str(error):
            raise error from _RankTracebackError(f"rank {first} of {name}:\n{remote_traceback}")
    message = ended.message or f"Rank {first} exited without a result of {name}."
    hint = "A function that ranks run returns or raises; it does not exit."
    raise CollectiveError(
        f"{message}\n\n{ended.details}".rstrip(), hint=None if first in raised else hint
    )


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
        ends = [read_end(rank["stderr"], _TAIL_BYTES) for rank in attempt["ranks"]]
        logs = [end.decode(errors="replace").strip() for end in ends]
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


_OF_A_JOB = re.compile(
    # What this package, the vendor's adapter and HCCL read.
    r"(ASCEND|CM|HCCL|LOCAL|LOSS|PROFILING|RANK|STEP|TARGET|TOTAL)_.*"
    r"|AOE_MODE|DEVICE_ID|ENABLE_DYNAMIC_SHAPE_MULTI_STREAM|GE_USE_STATIC_MEMORY|JOB_ID"
    r"|NPU_COLLECT_PATH|TF_CONFIG"
    # What schedulers and other launchers number their processes with.
    r"|(FLUX|HYDRA|I_MPI|MPI|MS|MV2|OMPI|PALS|PMI|PMIX|SLURM|TORCHELASTIC)_.*"
    r"|(GROUP|ROLE)_(RANK|SIZE|WORLD_SIZE)|MASTER_(ADDR|PORT)|RANK|WORLD_SIZE"
)


def find_job_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that make a process a rank, choose its backend or set options."""
    return {name: value for name, value in environ.items() if _OF_A_JOB.fullmatch(name)}


def clean_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment without the variables of a job."""
    job_variables = find_job_variables(environ)
    return {name: value for name, value in environ.items() if name not in job_variables}

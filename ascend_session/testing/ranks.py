"""`run_ranks`: a function as the ranks of a job on the stub."""

import multiprocessing.spawn
import os
import pickle
import sys
import tempfile
from typing import Any, Callable, List, Optional

from ascend_session.errors import CollectiveError, ConfigError
from ascend_session.testing.job import JobEnd, run_job
from ascend_session.testing.rank import CALL, name_result


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
        if error is not None:
            raise error from _RankTracebackError(f"rank {first} of {name}:\n{remote_traceback}")
    message = ended.message or f"Rank {first} exited without a result of {name}."
    hint = "A function that ranks run returns or raises; it does not exit."
    raise CollectiveError(
        f"{message}\n\n{ended.details}".rstrip(), hint=None if first in raised else hint
    )

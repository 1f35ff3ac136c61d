"""Knows how to measure what ranks on the stub need to exchange data, next to others' ways.

The ranks measure it themselves, so that their start does not count.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from timing import Row, Work, best_parts

RANKS = 8
TRAINING = (1, 2, 4)
STEPS, ROUNDS = 100, 6
MOST = 2  # turns; each starts as many processes with TensorFlow as there are ranks

_HERE = Path(__file__).resolve().parent
_NAMES = {
    "floor": "bare shared memory, one hub socket, NumPy",
    "operator": "the same, as a Python function in a graph",
    "gloo": "PyTorch over gloo",
    "mpi4py": "mpi4py",
}


class Size(NamedTuple):
    """What is reduced at once, how often before the mean is taken, and how near to the floor."""

    name: str
    bytes: int
    times: int
    limit: Optional[float] = None


SIZES = (
    Size("100 MB", 100_000_000, 2, 2.5),
    Size("1 MB", 1_000_000, 20),
    Size("4 KB", 4096, 200, 5.0),
)


def collectives(
    repeat: int,
    ranks: int = RANKS,
    sizes: Sequence[Size] = SIZES,
    training: Sequence[int] = TRAINING,
) -> Iterator[Row]:
    """Measure allreduces, and the steps of a training that needs them."""
    with tempfile.TemporaryDirectory() as folder:
        yield from compare_allreduces(Path(folder), min(repeat, MOST), ranks, sizes)
        yield from compare_steps(Path(folder), training, ranks)


def compare_allreduces(
    folder: Path, repeat: int, ranks: int, sizes: Sequence[Size]
) -> Iterator[Row]:
    """Compare allreduces with the bare floor, others' ways and copying what all ranks have."""
    ways = ["floor", "operator", *find_others()]
    works: Dict[str, Work] = {
        way: partial(time_allreduces, folder, way, ranks, sizes) for way in ("hccl", *ways)
    }
    found = best_parts(works, repeat)
    for number, size in enumerate(sizes):
        what, ours = f"allreduce of {size.name} over {ranks} ranks", found["hccl"][number]
        for way in ways:
            limit = size.limit if way == "floor" else None
            yield Row(what, ours, _NAMES[way], found[way][number], limit)
        yield Row(what, ours, "the same bytes copied in memory", time_copies(ranks, size))


def compare_steps(folder: Path, counts: Sequence[int], ranks: int) -> Iterator[Row]:
    """Compare a step of the digits training on several ranks with one of single processes.

    There is one turn: it starts more processes with TensorFlow than all the allreduces do. Each
    measures several rounds instead, and what is compared most closely is measured last, in a row.

    Args:
        folder: For what the launcher writes.
        counts: Numbers of ranks that are compared with the first of them.
        ranks: Number of ranks that is compared with as many single processes at the same time.
    """
    works: Dict[str, Work] = {
        str(count): partial(time_steps, folder, count) for count in {*counts, ranks}
    }
    found = best_parts({**works, "single": partial(time_single_steps, ranks)}, 1)
    times = {name: milliseconds for name, (milliseconds,) in found.items()}
    what = "step of the digits training, ranks: "
    alone = times[str(counts[0])]
    for count in counts:
        yield Row(f"{what}{count}", times[str(count)], f"ranks: {counts[0]}", alone)
    without = f"{ranks} single processes side by side"
    yield Row(f"{what}{ranks}", times[str(ranks)], without, times["single"])


def find_others() -> List[str]:
    """Name what is made for this, where it is installed."""
    found = ["gloo"] if find_spec("torch") else []
    return found + (["mpi4py"] if find_spec("mpi4py") and shutil.which("mpirun") else [])


def time_allreduces(folder: Path, way: str, ranks: int, sizes: Sequence[Size]) -> List[float]:
    """Give the seconds of an allreduce of each size."""
    own = tempfile.mkdtemp(dir=str(folder))
    asked = [f"{size.bytes}:{size.times}" for size in sizes]
    if way in ("floor", "operator"):
        return _seconds(_run([sys.executable, str(_HERE / "floor.py"), way, str(ranks), *asked]))
    words = [str(_HERE / "reducing.py"), way, own, *asked]
    if way == "mpi4py":
        mpirun = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)]
        return _seconds(_run([*mpirun, sys.executable, *words]))
    return _seconds(_run([*_launch(folder, ranks), *words]))


def time_copies(ranks: int, size: Size) -> float:
    """Give the milliseconds in which as many bytes as all ranks have are copied."""
    np: Any = import_module("numpy")
    source = np.ones(size.bytes // 4, np.float32)
    target = np.empty_like(source)
    found = []
    for _ in range(5):
        begin = perf_counter()
        for _ in range(ranks):
            np.copyto(target, source)
        found.append(perf_counter() - begin)
    return 1000 * min(found)


def time_steps(folder: Path, ranks: int) -> List[float]:
    """Give the seconds of a training step on so many ranks."""
    words = [str(_HERE / "stepping.py"), str(STEPS), str(ROUNDS)]
    return _seconds(_run([*_launch(folder, ranks), *words]))


def time_single_steps(processes: int) -> List[float]:
    """Give the seconds of a step of single processes that all train at the same time.

    Each round begins when all are ready and ends with the slowest, as it does among ranks that
    exchange gradients.
    """
    command = [sys.executable, str(_HERE / "stepping.py"), str(STEPS), str(ROUNDS), "wait"]
    environ = {**_environ(), "ASCEND_SESSION_BACKEND": "stub"}
    pipe = subprocess.PIPE
    rounds = []
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ, text=True)
            )
            for _ in range(processes)
        ]
        _wait_until_ready(running)
        for _ in range(ROUNDS):
            begin = perf_counter()
            _send_line(running)
            _wait_until_ready(running)
            rounds.append(perf_counter() - begin)
        _send_line(running)
        for process in running:
            process.communicate()
    return [min(rounds) / STEPS]


def _wait_until_ready(processes: Sequence["subprocess.Popen[str]"]) -> None:
    for process in processes:
        assert process.stdout is not None
        if "ready\n" not in process.stdout:  # reads up to this line
            raise SystemExit(f"{process.args!r} ended early")


def _send_line(processes: Sequence["subprocess.Popen[str]"]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def _seconds(output: str) -> List[float]:
    found: List[float] = json.loads(output[output.rindex("seconds [") + len("seconds ") :])
    return found


def _launch(folder: Path, ranks: int) -> List[str]:
    options = ["--backend", "stub", "--log-dir", str(folder / "logs"), "--show", "0"]
    return [sys.executable, "-m", "ascend_session.cli", "launch", *options, "-n", str(ranks)]


def _environ() -> Dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}


def _run(command: Sequence[str]) -> str:
    ran = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_environ(),
        check=False,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout

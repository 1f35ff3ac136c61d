"""Knows how to measure what ranks on the stub need to exchange data, next to others' ways.

The ranks measure it themselves, so that their start does not count.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

from timing import Row

RANKS = 8
TRAINING = (1, 2, 4, 8)
STEPS = 50
MOST = 3  # turns; each starts as many processes with TensorFlow as there are ranks

_HERE = Path(__file__).resolve().parent
_NAMES = {
    "tensorflow": "collective_ops of TensorFlow, without this package",
    "gloo": "PyTorch over gloo",
    "mpi4py": "mpi4py",
}


class Size(NamedTuple):
    """What is reduced at once, and how often before the mean is taken."""

    name: str
    bytes: int
    times: int


SIZES = (Size("100 MB", 100_000_000, 3), Size("4 KB", 4096, 50))


def collectives(
    repeat: int,
    ranks: int = RANKS,
    sizes: Sequence[Size] = SIZES,
    training: Sequence[int] = TRAINING,
) -> Iterator[Row]:
    """Measure allreduces, and the steps of a training that needs them."""
    with tempfile.TemporaryDirectory() as folder:
        yield from reducing(Path(folder), min(repeat, MOST), ranks, sizes)
        yield from stepping(Path(folder), min(repeat, MOST), training)


def reducing(folder: Path, repeat: int, ranks: int, sizes: Sequence[Size]) -> Iterator[Row]:
    """Compare allreduces with those of others, and with copying as many bytes as ranks have."""
    ways = ["hccl", *others()]
    times: Dict[str, List[List[float]]] = {way: [] for way in ways}
    for _ in range(repeat):
        for way in ways:
            times[way].append(reduced(folder, way, ranks, sizes))
    for number, size in enumerate(sizes):
        found = {way: 1000 * min(turn[number] for turn in times[way]) for way in ways}
        what = f"allreduce of {size.name} over {ranks} ranks"
        for way in ways[1:]:
            yield Row(what, found["hccl"], _NAMES[way], found[way])
        yield Row(what, found["hccl"], "the same bytes copied in memory", copied(ranks, size))


def stepping(folder: Path, repeat: int, counts: Sequence[int]) -> Iterator[Row]:
    """Compare a step of the digits training on several ranks with one on a single rank."""
    alone = 0.0
    for count in counts:
        found = min(1000 * step(folder, count) for _ in range(repeat))
        alone = alone or found
        what = f"step of the digits training, ranks: {count}"
        yield Row(what, found, f"ranks: {counts[0]}", alone)


def others() -> List[str]:
    """Name what to compare with: what is made for this, where it is installed."""
    found = ["gloo"] if find_spec("torch") else []
    found += ["mpi4py"] if find_spec("mpi4py") and shutil.which("mpirun") else []
    return found or ["tensorflow"]


def reduced(folder: Path, way: str, ranks: int, sizes: Sequence[Size]) -> List[float]:
    """Give the seconds of an allreduce of each size."""
    own = tempfile.mkdtemp(dir=str(folder))
    words = [
        str(_HERE / "reducing.py"),
        way,
        own,
        *(f"{size.bytes}:{size.times}" for size in sizes),
    ]
    if way == "mpi4py":
        mpirun = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)]
        said = _said([*mpirun, sys.executable, *words])
    else:
        said = _said([*_launch(folder, ranks), *words])
    return _seconds(said)


def copied(ranks: int, size: Size) -> float:
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


def step(folder: Path, ranks: int) -> float:
    """Give the seconds of a training step."""
    said = _said([*_launch(folder, ranks), str(_HERE / "stepping.py"), str(STEPS)])
    return _seconds(said)[0]


def _seconds(said: str) -> List[float]:
    found: List[float] = json.loads(said[said.rindex("seconds [") + len("seconds ") :])
    return found


def _launch(folder: Path, ranks: int) -> List[str]:
    options = ["--backend", "stub", "--log-dir", str(folder / "logs"), "--show", "0"]
    return [sys.executable, "-m", "ascend_session.cli", "launch", *options, "-n", str(ranks)]


def _said(command: Sequence[str]) -> str:
    environ: Dict[str, Any] = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    quiet = subprocess.DEVNULL
    ran = subprocess.run(
        command, stdin=quiet, capture_output=True, env=environ, check=False, text=True
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout

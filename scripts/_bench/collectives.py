"""Knows how to measure what ranks on the stub need to exchange data, next to the bare floor.

The ranks measure it themselves, so that their start does not count.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from timing import Row, Work, best_parts

RANKS = 8
MOST = 2  # turns; each starts as many processes with TensorFlow as there are ranks

_HERE = Path(__file__).resolve().parent
_NAMES = {
    "floor": "bare shared memory, one hub socket, NumPy",
    "operator": "the same, as a Python function in a graph",
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


def collectives(repeat: int, ranks: int = RANKS, sizes: Sequence[Size] = SIZES) -> Iterator[Row]:
    """Compare allreduces with the bare floor."""
    with tempfile.TemporaryDirectory() as folder:
        works: Dict[str, Work] = {
            way: partial(time_allreduces, Path(folder), way, ranks, sizes)
            for way in ("hccl", *_NAMES)
        }
        found = best_parts(works, min(repeat, MOST))
    for number, size in enumerate(sizes):
        what, ours = f"allreduce of {size.name} over {ranks} ranks", found["hccl"][number]
        for way, name in _NAMES.items():
            limit = size.limit if way == "floor" else None
            yield Row(what, ours, name, found[way][number], limit)


def time_allreduces(folder: Path, way: str, ranks: int, sizes: Sequence[Size]) -> List[float]:
    """Give the seconds of an allreduce of each size."""
    own = tempfile.mkdtemp(dir=str(folder))
    asked = [f"{size.bytes}:{size.times}" for size in sizes]
    if way in ("floor", "operator"):
        return read_seconds([sys.executable, str(_HERE / "floor.py"), way, str(ranks), *asked])
    return read_seconds([*launch_of(folder, ranks), str(_HERE / "reducing.py"), own, *asked])


def read_seconds(command: Sequence[str]) -> List[float]:
    """Run a command; give the seconds that it prints as a list."""
    output = _run(command)
    found: List[float] = json.loads(output[output.rindex("seconds [") + len("seconds ") :])
    return found


def launch_of(folder: Path, ranks: int) -> List[str]:
    """Begin the command that launches so many ranks, with logs below the folder."""
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

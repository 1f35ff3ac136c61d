"""Knows how to measure what a launch costs, next to a shell loop."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Callable, Dict, Iterator, List, Sequence

import psutil

from timing import Row, Work, best

RANKS, MANY = 8, 256
LONGEST_IDLE = 60.0  # seconds
WARM_UP = 30.0  # seconds, after which the guardian looks around rarely

# What ranks do that are compared with a shell loop of as many, and the limit of the ratio.
_PROGRAMS = (("that do nothing", "pass\n", 2.0), ("with TensorFlow", "import tensorflow\n", 1.05))
# Rank 0 notes when it dies; the others wait for that.
_DYING = """
import os, sys, time
if os.environ["RANK_ID"] != "0":
    time.sleep(1000)
time.sleep(1)
with open({path!r}, "w") as file:
    file.write(str(time.time()))
os._exit(1)
"""


def launching(repeat: int) -> Iterator[Row]:
    """Measure start to end, a rank's death to the launcher's return, and many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        yield from starting(Path(folder), repeat)
        yield from failing(Path(folder), repeat)
        yield many(Path(folder), repeat)
        yield idle(Path(folder), min(2.0 * repeat, LONGEST_IDLE))


def starting(folder: Path, repeat: int) -> Iterator[Row]:
    """Compare the start and end of ranks with a shell loop of as many."""
    for what, text, limit in _PROGRAMS:
        script = folder / "program.py"
        script.write_text(text)
        loop = f"for i in $(seq {RANKS}); do {sys.executable} {script} & done; wait"
        works: Dict[str, Work] = {"ours": _timed(ours(folder, str(script))), "loop": _shell(loop)}
        found = best(works, repeat if limit > 1.5 else min(repeat, 5))
        row = f"{RANKS} ranks {what}"
        yield Row(row, found["ours"], "a shell loop with & and wait", found["loop"], limit)


def failing(folder: Path, repeat: int) -> Iterator[Row]:
    """Compare how long after a rank's death the launcher returns."""
    died, script = folder / "died", folder / "dying.py"
    script.write_text(_DYING.format(path=str(died)))

    def after(command: Sequence[str]) -> Work:
        def work() -> List[float]:
            _run(command)
            return [time() - float(died.read_text())]

        return work

    loop = (
        f"for i in $(seq 0 {RANKS - 1}); do RANK_ID=$i {sys.executable} {script} & done; "
        "wait -n; kill $(jobs -p) 2>/dev/null; wait"
    )
    works = {"ours": after(ours(folder, str(script))), "loop": after(["bash", "-c", loop])}
    found = best(works, min(repeat, 5))
    what, without = "from a rank's death to the end", "bash, wait -n and kill"
    yield Row(what, found["ours"], without, found["loop"], 30, limits_ratio=False)


def many(folder: Path, repeat: int) -> Row:
    """Compare many ranks that do nothing with a shell loop of as many."""
    loop = f"for i in $(seq {MANY}); do /bin/true & done; wait"
    command = [*_launch(folder), "-n", str(MANY), "--no-python", "/bin/true"]
    found = best({"ours": _timed(command), "loop": _shell(loop)}, min(repeat, 5))
    what = f"{MANY} ranks of /bin/true"
    # The loop makes no pipe, no log file and no session for any of them.
    return Row(what, found["ours"], "a shell loop", found["loop"], 2000, limits_ratio=False)


def idle(folder: Path, seconds: float) -> Row:
    """Measure the processor time of launcher and guardian while ranks sleep, as for an hour."""
    command = [*_launch(folder), "-n", str(RANKS), "--no-python", "/bin/sleep", "1000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        launcher = psutil.Process(run.pid)
        while len(launcher.children(recursive=True)) < RANKS + 1:
            sleep(0.05)
        sleep(WARM_UP)
        watched = [launcher, *launcher.children()]
        begin = _processor_time(watched)
        sleep(seconds)
        used = _processor_time(watched) - begin
        run.terminate()
    hour = 3600 / seconds * used
    what = "processor time of an idle hour"
    hundredth = 1000 * 3600 / 100
    return Row(what, 1000 * hour, "a hundredth of it", hundredth, 2000, limits_ratio=False)


def ours(folder: Path, script: str) -> List[str]:
    """Give the command that launches a script on the stub."""
    return [*_launch(folder), "-n", str(RANKS), script]


def _launch(folder: Path) -> List[str]:
    options = ["--backend", "stub", "--log-dir", str(folder / "logs")]
    return [sys.executable, "-m", "ascend_session.cli", "launch", *options]


def _processor_time(processes: Sequence[psutil.Process]) -> float:
    """Return the seconds of all threads; psutil counts in hundredths, too coarse for an hour's."""
    stats = [
        file for each in processes for file in Path(f"/proc/{each.pid}/task").glob("*/schedstat")
    ]
    return sum(int(file.read_text().split()[0]) for file in stats) / 1e9


def _timed(command: Sequence[str]) -> Work:
    return _seconds(lambda: _run(command))


def _shell(words: str) -> Work:
    return _timed(["bash", "-c", words])


def _seconds(action: Callable[[], None]) -> Work:
    def work() -> List[float]:
        begin = perf_counter()
        action()
        return [perf_counter() - begin]

    return work


def _run(command: Sequence[str]) -> None:
    quiet = subprocess.DEVNULL
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environ, check=False)

"""Knows how to measure what it costs to show what eight ranks write, each line with its rank."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from time import perf_counter
from typing import Callable, List, Optional, Sequence

from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.show.following import Output
from timing import Row, best

RANKS = 8
LINES = 200_000  # of each rank
LINE = "step 123456 loss 0.123456 accuracy 0.98765 seconds per step 0.0123 ok\n"
TARGET = 100e6  # bytes a second
SLOW_BYTES, SLOW_S = 64 * 1024, 0.02  # what a slow reader takes, and how often
SLOW_LINES = 20_000  # of each rank

_RANK = (
    "import sys\nlines = {line!r} * 1000\n"
    "for _ in range({thousands}): sys.stdout.buffer.write(lines)\n"
)


def showing(repeat: int) -> List[Row]:
    """Compare the lines of eight ranks, shown, with the same ranks writing to ``/dev/null``."""
    found = best({"ours": shown, "theirs": thrown_away}, repeat)
    limit = 1000 * RANKS * LINES * len(f"[0] {LINE}") / TARGET
    without = f"the same {RANKS} programs writing to /dev/null"
    what = f"{RANKS * LINES / 1e6:.1f} million lines of {RANKS} ranks"
    slow = best({"ours": behind_slow_reader, "theirs": slow_thrown_away}, repeat)
    slowly = f"{RANKS} ranks with {SLOW_LINES} lines each to exit behind a slow reader"
    return [
        Row(what, found["ours"], without, found["theirs"], limit, limits_ratio=False),
        Row(slowly, slow["ours"], without, slow["theirs"]),
    ]


def shown() -> List[float]:
    """Seconds from the start of the ranks until their last line is out."""
    with open(os.devnull, "wb") as null:
        return [_run(null.fileno(), LINES)[1]]


def behind_slow_reader() -> List[float]:
    """Seconds until the ranks have exited while somebody reads slowly."""
    read, write = os.pipe()
    has_ended = threading.Event()

    def take() -> None:
        while os.read(read, SLOW_BYTES):
            time.sleep(0.0 if has_ended.is_set() else SLOW_S)

    reader = threading.Thread(target=take)
    reader.start()
    seconds = _run(write, SLOW_LINES, has_ended.set)[0]
    os.close(write)
    reader.join()
    os.close(read)
    return [seconds]


def thrown_away() -> List[float]:
    """Seconds from the start of the ranks to their end."""
    return [_throw_away(LINES)]


def slow_thrown_away() -> List[float]:
    """The same for the ranks that a slow reader reads."""
    return [_throw_away(SLOW_LINES)]


def _throw_away(lines: int) -> float:
    begin = perf_counter()
    for program in [_start(subprocess.DEVNULL, lines) for _ in range(RANKS)]:
        program.wait()
    return perf_counter() - begin


def _run(target: int, lines: int, on_exit: Optional[Callable[[], None]] = None) -> List[float]:
    """Seconds until the ranks have exited, and until all is shown."""
    folder = tempfile.mkdtemp()
    begin = perf_counter()
    output = Output(target, RANKS, range(RANKS))
    ranks = _plan(folder)
    output.follow(ranks)
    programs = []
    for rank in ranks:
        with open(rank.stdout, "ab") as log:
            programs.append(_start(log.fileno(), lines))
    for program in programs:
        program.wait()
    exited = perf_counter() - begin
    if on_exit is not None:
        on_exit()
    output.finish()
    output.close()
    seconds = perf_counter() - begin
    shutil.rmtree(folder)
    return [exited, seconds]


def _plan(folder: str) -> Sequence[LaunchRank]:
    config = LaunchConfig(program="/bin/true", processes=RANKS, backend="stub", log_dir=folder)
    return plan_job(config, dict(os.environ)).ranks


def _start(stdout: int, lines: int) -> "subprocess.Popen[bytes]":
    code = _RANK.format(line=LINE.encode(), thousands=lines // 1000)
    return subprocess.Popen([sys.executable, "-S", "-c", code], stdout=stdout)

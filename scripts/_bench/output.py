"""Knows how to measure what it costs to show what eight ranks write, each line with its rank."""

import os
import subprocess
import sys
from time import perf_counter
from typing import List

from ascend_session.launcher.output import Output
from ascend_session.launcher.pump import LogFile, Pump, Source
from ascend_session.launcher.signals import Signals
from timing import Row, best

RANKS = 8
LINES = 200_000  # of each rank
LINE = "step 123456 loss 0.123456 accuracy 0.98765 seconds per step 0.0123 ok\n"
TARGET = 100e6  # bytes a second

_RANK = (
    f"import sys\nlines = {LINE.encode()!r} * 1000\n"
    f"for _ in range({LINES // 1000}): sys.stdout.buffer.write(lines)\n"
)


def showing(repeat: int) -> Row:
    """Compare the lines of eight ranks, shown, with the same ranks writing to ``/dev/null``."""
    found = best({"ours": shown, "theirs": thrown_away}, repeat)
    limit = 1000 * RANKS * LINES * len(f"[0] {LINE}") / TARGET
    without = f"the same {RANKS} programs writing to /dev/null"
    what = f"{RANKS * LINES / 1e6:.1f} million lines of {RANKS} ranks"
    return Row(what, found["ours"], without, found["theirs"], limit, limits_ratio=False)


def shown() -> List[float]:
    """Seconds from the start of the ranks until their last line is out."""
    begin = perf_counter()
    null = os.open(os.devnull, os.O_WRONLY)
    output = Output(null, RANKS, range(RANKS))
    programs, sources = [], []
    for rank in range(RANKS):
        read, write = os.pipe()
        programs.append(_start(write))
        os.close(write)
        sources.append(Source(read, rank, "stdout", LogFile(os.devnull, output.notices)))
    Pump(sources, output).start().join()
    output.close(Signals())
    seconds = perf_counter() - begin
    os.close(null)
    for program in programs:
        program.wait()
    return [seconds]


def thrown_away() -> List[float]:
    """Seconds from the start of the ranks to their end."""
    begin = perf_counter()
    for program in [_start(subprocess.DEVNULL) for _ in range(RANKS)]:
        program.wait()
    return [perf_counter() - begin]


def _start(stdout: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-S", "-c", _RANK], stdout=stdout)

"""Knows how the comparisons are shown, and when they end in an error."""

import argparse
import os
import platform
import secrets
import sys
from typing import Collection, Iterable, Iterator, Sequence

from timing import Row

PARTS = ("launching", "output", "collectives", "models")


def main(argv: Sequence[str]) -> int:
    """Measure and print; return 1 for a missed limit if ``--strict`` was asked for."""
    asked = parse(argv)
    if asked.chaos:
        from chaos import run_chaos

        seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
        return 1 if run_chaos(seed, asked.launches) else 0
    load = os.getloadavg()[0]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported
    import tensorflow as tf

    print(
        f"Python {platform.python_version()}, TensorFlow {tf.__version__}; {os.cpu_count()} CPUs, "
        f"load {load:.1f}; best of {asked.repeat}."
    )
    print(f"\n{'':37} {'ours':>10} {'without':>12} {'ratio':>7} {'target':>10}", flush=True)
    missed = show(measure(asked.repeat, asked.only or PARTS))
    return 1 if missed and asked.strict else 0


def measure(repeat: int, parts: Collection[str]) -> Iterator[Row]:
    """Measure one comparison after the other, each side ``repeat`` times."""
    from collectives import collectives
    from launching import launching
    from models import models
    from output import showing

    if "launching" in parts:
        yield from launching(repeat)
    if "output" in parts:
        yield from showing(min(repeat, 5))
    if "collectives" in parts:
        yield from collectives(repeat)
    if "models" in parts:
        yield from models(repeat)


def show(rows: Iterable[Row]) -> int:
    """Print each row as soon as it is measured; return how many missed their target."""
    missed = 0
    for row in rows:
        print(line(row), flush=True)
        missed += not row.is_ok
    return missed


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure what ascend_session costs, against the same work without it. Both "
        "sides take turns and the best time counts; on a busy machine the ratios still vary.",
    )
    add = parser.add_argument
    add("--repeat", type=int, default=30, metavar="N", help="turns of each side (%(default)s)")
    add("--strict", action="store_true", help="exit with 1 if a target is missed")
    add("--only", action="append", choices=PARTS, help="measure only this part; repeatable")
    add("--chaos", action="store_true", help="kill processes of training jobs instead of measuring")
    add("--launches", type=int, default=50, metavar="N", help="of --chaos (%(default)s)")
    add("--seed", type=int, metavar="N", help="of --chaos, to do the same again")
    asked = parser.parse_args(argv)
    if asked.repeat < 1:
        parser.error(f"--repeat {asked.repeat}: measure once or more.")
    if asked.launches < 1:
        parser.error(f"--launches {asked.launches}: launch once or more.")
    return asked


def line(row: Row) -> str:
    """Lay out a row, and below it what it was compared with."""
    measured = f"{row.what:37} {row.ours:7.2f} ms {row.theirs:9.2f} ms {row.ratio:7.3f}"
    if row.limit is None:
        return f"{measured} {'none':>10}\n    without: {row.without}"
    target = f"<= {row.limit:.2f}" if row.limits_ratio else f"<= {row.limit:.0f} ms"
    verdict = "ok" if row.is_ok else "missed"
    return f"{measured} {target:>10}  {verdict}\n    without: {row.without}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Imports TensorFlow once, then runs the hardware tests in forked copies of itself.

Takes a folder, and reads the runs from stdin. Each has a folder with a fake host of its own below
it, writes what pytest says to ``output`` there, and what became of the tests to ``result.json``.
"""

import gc
import importlib
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
import tensorflow.compat.v1 as tf

import ascend_session.backends.npu
import ascend_session.cli
import ascend_session.fanout  # noqa: F401  (imported here, so that the copies need not)
from hardware_tests import limits
from tests.fake_host.vendor import end_orphans, environment, live_host
from tests.rank_nursery import RankNursery
from tests.rehearsal import holes_in_product as _  # noqa: F401  (which makes its holes known)
from tests.rehearsal import stripping
from tests.rehearsal.forked import Nursery
from tests.rehearsal.holes import HOLES

tf.logging.set_verbosity(tf.logging.ERROR)
# pytest's tracebacks look through all modules, which makes TensorFlow 1.15 load its lazy ones.
inspect.getmodule(inspect.currentframe())
# And each of its runs ends with several collections of garbage.
gc.freeze()
limits.HELD = 1.0
limits.GRACE = 0.5


class Outcomes:
    """A plugin that notes what became of each test."""

    def __init__(self) -> None:
        self.chosen: List[str] = []
        self.outcomes: Dict[str, str] = {}
        self.texts: Dict[str, str] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        self.chosen = [item.nodeid for item in session.items]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or not report.passed:
            broken = report.failed and report.when != "call"
            self.outcomes[report.nodeid] = f"error in {report.when}" if broken else report.outcome
            self.texts[report.nodeid] = report.longreprtext


def rehearse(run: Dict[str, Any], folder: Path) -> None:
    """Makes the host, plants what is wrong with it, and runs pytest."""
    output = os.open(str(folder / "output"), os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    host = live_host(folder)
    given = environment(host, faults=run["engine"])
    os.environ.update(given)
    sys.path[:0] = given["PYTHONPATH"].split(os.pathsep)
    if run["hole"]:
        HOLES[run["hole"]](host)
    if run["stripped"]:
        stripping.install()
    # In this order: neither may hold what ends the other.
    ranks = RankNursery(folder)
    nursery = Nursery()
    if not run["anew"]:
        running: Any = importlib.import_module("hardware_tests.running")
        running.Popen = nursery.popen
        jobs: Any = importlib.import_module("hardware_tests.jobs")
        jobs.PYTHON = ranks.python
    if not run["tried"]:
        first_try: Any = importlib.import_module("hardware_tests.first_try")
        first_try.why_it_ends = lambda: None
        page: Any = importlib.import_module("hardware_tests.page")
        page.look_at_machine = page.Machine
    outcomes = Outcomes()
    options = ["-q", "--tb=native", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}"]
    # The product's own plugin is imported above, before pytest could rewrite its assertions.
    options += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    options += ["--assert=plain"] if run["stripped"] else []
    try:
        code = int(pytest.main([*options, *run["arguments"]], plugins=[outcomes]))
    finally:
        nursery.close()
        ranks.close()
        end_orphans(host)
        host.close()
    result = {**vars(outcomes), "code": code}
    (folder / "result.json").write_text(json.dumps(result))


def main(folder: Path) -> None:
    """Do each run that a line of JSON asks for, and answer with an empty line at its end.

    In a copy it returns after its run, so that the copy ends as any program does. One with a fault
    has nothing more to show, and ends at once.
    """
    for line in iter(sys.stdin.readline, ""):
        run = json.loads(line)
        own = folder / run["name"]
        own.mkdir()
        if not os.fork():
            rehearse(run, own)
            if not run["tried"]:
                _end_at_once()
            return
        os.wait()
        print(flush=True)


def _end_at_once() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


main(Path(sys.argv[1]))

"""The name under which the ranks of one launcher meet on the stub, and what is left of it."""

import os
import signal
import time
from pathlib import Path
from typing import List

import psutil
import pytest

from ascend_session import RetryPolicy
from ascend_session.backends.exchange.folder import find_folder
from ascend_session.cluster.variables import RENDEZVOUS
from ascend_session.errors import ConfigError
from ascend_session.launcher.api import launch
from ascend_session.launcher.events import Event, Planned
from ascend_session.launcher.plan.plan import Plan
from tests.launcher.jobs import Bench, bench
from tests.launcher.supervised import Gate, alive, config, in_launcher
from tests.waiting import wait_until

__all__ = ["bench"]

_REPOSITORY = Path(__file__).resolve().parents[2]

# Rank 0 listens for the others, and ends whom it is told to end without tidying up.
_KILLING = """
from ascend_session.backends.exchange.folder import find_folder
from ascend_session.backends.exchange.rendezvous import Listening
if rank == 0:
    listening = Listening()
    listening.open([os.environ["NAME"]])
    files = [name for name in os.listdir(find_folder()) if os.environ["NAME"] in name]
    with open(os.environ["FOUND"], "w") as found:  # the guardian would have to copy what is printed
        print(*sorted(files), file=found)
    os.kill({"rank": os.getpid(), "guardian": os.getppid()}[os.environ["KILLED"]], signal.SIGKILL)
signal.pause()
"""

# Ranks that outlive their guardian, as those do that have a wrapper between: one waits for nobody,
# the others for all.
_OUTLIVING = """
import ctypes
import numpy
from ascend_session.backends.exchange.wire import Operation
from ascend_session.backends.exchange.communicator import Collective
from ascend_session.backends.stub_job import open_job
from ascend_session.cluster.job import Job
ctypes.CDLL(None).prctl(1, 0)  # PR_SET_PDEATHSIG
group = open_job(Job.detect(os.environ), {}, os.environ).process_group
tell(os.getpid())
try:
    if rank == 1:
        signal.pause()
    operation = Operation("k", "op/k", (0, 1, 2), "allreduce sum float64 [4]")
    numbers = numpy.ones(4)
    Collective(group, operation, lambda ranks: ranks.all_reduce(numbers, "sum", "float64")).run()
except Exception as error:
    tell(error)
    group.close()
"""


def name_of(made: Plan) -> str:
    """The name, which all ranks have been given."""
    (name,) = {rank.changed[RENDEZVOUS] for rank in made.ranks}
    return name


def test_all_ranks_of_a_launcher_are_given_one_name_that_nobody_guesses(bench: Bench) -> None:
    names = {name_of(bench.plan(processes=3)) for _ in range(20)}
    assert len(names) == 20
    assert all(len(bytes.fromhex(name)) == 16 for name in names)


def test_launchers_of_several_nodes_give_their_ranks_the_same_name(bench: Bench) -> None:
    nodes = [bench.plan(nnodes=2, node_rank=number, processes=1) for number in (0, 1)]
    assert name_of(nodes[0]) == name_of(nodes[1])


def test_a_launch_within_a_rank_has_a_name_of_its_own(bench: Bench) -> None:
    outer = bench.plan(processes=2)
    bench.environ.update(outer.ranks[1].environment)
    inner = bench.plan(processes=2)
    assert name_of(inner) != name_of(outer)
    assert RENDEZVOUS not in inner.removed


@pytest.mark.parametrize("devices", [False, True])
def test_a_rank_alone_and_ranks_on_devices_have_none(bench: Bench, devices: bool) -> None:
    bench.environ[RENDEZVOUS] = "of another job"
    if devices:
        bench.nodes(range(2))
    made = bench.with_table() if devices else bench.plan(processes=1)
    assert not any(RENDEZVOUS in rank.environment for rank in made.ranks)
    assert made.removed[RENDEZVOUS] == "it belongs to another job, on the stub"


def test_nobody_else_gives_it(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=RENDEZVOUS):
        bench.plan(processes=2, env={RENDEZVOUS: "mine"})


def test_each_attempt_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "wait_before_next", lambda policy, failure: 0.0)
    names: List[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Planned):
            names.append(name_of(event.plan))

    transient = "sys.exit('EJ0001: Failed to initialize the HCCP process')"
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        launch(config(tmp_path, transient, 2, max_restarts=1), output=null, on_event=note)
    finally:
        os.close(null)
    assert len(set(names)) == 2


@pytest.mark.parametrize("killed", ["rank", "guardian"])
def test_the_launcher_removes_what_killed_ranks_have_left(tmp_path: Path, killed: str) -> None:
    name = f"test-{os.getpid()}"
    found = tmp_path / "found"
    env = {"GATE": "", "NAME": name, "FOUND": str(found), "KILLED": killed}
    env["PYTHONPATH"] = str(_REPOSITORY)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        launch(config(tmp_path, _KILLING, 2, env=env), output=null)
    finally:
        os.close(null)
    assert found.read_text() == f"{name} {name}.lock\n"
    assert [left for left in os.listdir(find_folder()) if name in left] == []


def test_survivors_of_launcher_guardian_and_a_rank_name_it_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path)
    launcher = in_launcher(tmp_path, _OUTLIVING)
    pids: List[int] = []
    try:
        pids = [int(pid) for _, pid in gate.lines(3)]
        (guardian,) = psutil.Process(launcher.pid).children()
        where = [one.laddr for one in psutil.Process(pids[0]).net_connections("unix")]
        (name,) = {path for path in where if str(path).startswith(find_folder())}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # so that neither sees the other's end
            for pid in (launcher.pid, guardian.pid, pids[1]):
                os.kill(pid, number)
        killed = time.monotonic()
        for rank, words in zip("02", gate.lines(2)):
            sentence = "The job cannot continue: rank 1 has exited"
            assert " ".join(words).startswith(f"{rank} {sentence}")
        assert time.monotonic() - killed < 30
        wait_until(lambda: not alive(pids))
    finally:
        launcher.kill()
        launcher.communicate()
        gate.close()
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        launch(config(tmp_path, "", 2), output=null)
    finally:
        os.close(null)
    assert not os.path.exists(name)
    assert not os.path.exists(f"{name}.lock")

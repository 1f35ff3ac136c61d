"""The ports of a job on the stub: who gets them, who does not, and until when."""

import errno
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import pytest

from ascend_session.cluster import ports as kept_ports
from ascend_session.cluster.variables import COORDINATOR, PORT
from ascend_session.errors import AscendError, JobError, PreflightError
from ascend_session.launcher.events import Event, Over, Planned
from ascend_session.launcher.launching import _Launch, launch
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.reservation import reserve
from tests.launcher.jobs import Bench, bench
from tests.launcher.supervised import PATIENCE, config, job

__all__ = ["bench"]

_REPOSITORY = Path(__file__).resolve().parents[2]

# Asks for any port, again and again, in all the ways there are, and keeps what it gets.
_GREEDY = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
family, address, reuse = sys.argv[1:]
kept = []
for _ in range(1000):
    one = socket.socket(socket.AF_INET6 if family == "6" else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
    one.bind((address, 0))
    one.listen(1)
    kept.append(one)
print(*[one.getsockname()[1] for one in kept])
"""

# Makes a plan where no more files may be open than that.
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
from ascend_session.errors import JobError
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.plan import plan
try:
    plan(LaunchConfig(program="/bin/true", processes=8, backend="stub"), {})
except JobError as error:
    print(error.message)
"""

_LOOK = """
def sockets(process):
    folder = f"/proc/{process}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{name}"))
        except FileNotFoundError:  # the folder itself, which was open then
            continue
    return [text for text in found if text.startswith("socket:")]
print(*sockets(os.getpid()))
print(*sockets(os.getppid()))
"""


def ports(made: Plan) -> List[int]:
    """The coordinator's, then the ranks' in their order."""
    coordinator = (made.reserved.coordinator or "").rpartition(":")[2]
    return [int(coordinator), *made.reserved.ports]


def can_be_had(port: int, reuse: bool = False) -> bool:
    """Whether one who wants this port can listen at it."""
    with socket.socket() as wanting:
        wanting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        try:
            wanting.bind(("127.0.0.1", port))
            wanting.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def sockets_here() -> Set[str]:
    """The sockets of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {text for text in found if text.startswith("socket:")}


def test_every_rank_knows_its_own_port_and_the_coordinators(bench: Bench) -> None:
    made = bench.plan(processes=3)
    assert len(set(ports(made))) == 4
    assert [rank.environment[COORDINATOR] for rank in made.ranks] == [made.reserved.coordinator] * 3
    assert [int(rank.changed[PORT]) for rank in made.ranks] == list(made.reserved.ports)
    assert str(made.reserved.coordinator).startswith("127.0.0.1:")
    shown = json.loads(json.dumps(made.as_dict()))
    assert shown["coordinator"] == made.reserved.coordinator
    assert shown["ports"] == list(made.reserved.ports)


@pytest.mark.parametrize("asked", ["one", "npu"])
def test_one_rank_and_ranks_on_devices_need_none(bench: Bench, asked: str) -> None:
    bench.environ.update({COORDINATOR: "127.0.0.1:1", PORT: "2"})
    before = sockets_here()
    if asked == "npu":
        bench.nodes(range(2))
        made = bench.with_table()
    else:
        made = bench.plan(processes=1)
    assert sockets_here() == before
    assert (made.reserved.coordinator, made.reserved.ports) == (None, ())
    assert all("it belongs to another job" in made.removed[name] for name in (COORDINATOR, PORT))
    assert not any({COORDINATOR, PORT} & set(rank.environment) for rank in made.ranks)


def test_what_another_job_has_is_not_inherited(bench: Bench) -> None:
    outer = bench.plan(processes=2)
    bench.environ.update(outer.ranks[1].environment)
    inner = bench.plan(processes=2)
    assert not set(ports(outer)) & set(ports(inner))
    assert inner.ranks[0].environment[PORT] == str(inner.reserved.ports[0])
    assert not {COORDINATOR, PORT} & set(inner.removed)


def test_a_rank_can_have_its_port_and_nobody_else_can(bench: Bench) -> None:
    before = sockets_here()
    made = bench.plan(processes=2)
    assert [can_be_had(port) for port in ports(made)] == [False] * 3
    assert [can_be_had(port, reuse=True) for port in ports(made)] == [True] * 3
    assert [can_be_had(port) for port in ports(made)] == [False] * 3
    assert len(sockets_here() - before) == 3
    made.reserved.release()
    assert sockets_here() == before
    made.reserved.release()


def test_a_rank_that_listens_keeps_its_port_when_it_is_let_go(bench: Bench) -> None:
    made = bench.plan(processes=2)
    port = ports(made)[1]
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(1)
        made.reserved.release()
        assert not can_be_had(port)
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()


@pytest.mark.parametrize("reuse", ["0", "1"])
@pytest.mark.parametrize(
    ("family", "address"),
    [("4", "127.0.0.1"), ("4", ""), ("4", "127.0.0.2"), ("6", "::1"), ("6", "::")],
)
def test_who_asks_for_any_port_never_gets_one_of_them(
    bench: Bench, family: str, address: str, reuse: str
) -> None:
    if family == "6" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    made = bench.plan(processes=500)
    got = subprocess.run(
        [sys.executable, "-S", "-c", _GREEDY, family, address, reuse],
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE,
    ).stdout
    assert len(got.split()) == 1000
    # One in thirty of all that there are: by chance about thirty would be among them.
    assert set(map(int, got.split())) & set(ports(made)) == set()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as trying:
            trying.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_without_ipv6_the_ports_are_kept_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_on = kept_ports.bound_on

    def without(family: int, address: str, port: int = 0) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return bound_on(family, address, port)

    monkeypatch.setattr(kept_ports, "bound_on", without)
    made = bench.plan(processes=2)
    assert [can_be_had(port) for port in ports(made)] == [False] * 3
    assert [can_be_had(port, reuse=True) for port in ports(made)] == [True] * 3


def test_neither_ranks_nor_the_guardian_inherit_them(tmp_path: Path) -> None:
    kept: List[Set[str]] = []

    def look(event: Event) -> None:
        if isinstance(event, Planned):
            kept.append(sockets_here())

    run = job(tmp_path, _LOOK, ranks=2, on_event=look)
    assert len(kept[0]) >= 3
    for rank in range(2):
        own, guardians = run.said(rank).split("\n")[:2]
        assert own == ""
        assert len(guardians.split()) == 1  # on which it talks with the launcher
        assert not set(guardians.split()) & kept[0]


def test_many_ports_leave_room_for_other_files(bench: Bench) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        made = bench.plan(processes=300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (256, before[1])
        with open(os.devnull) as other:
            assert other.fileno() < 100
        assert len(set(ports(made))) == 301
        assert not any(can_be_had(port) for port in ports(made))
        made.reserved.release()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_few_files_are_an_error_before_anything_is_bound() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _LIMITED],
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert "open files for 8 ranks, and may have 100." in said


def test_no_port_is_an_error_and_those_before_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_on, before = kept_ports.bound_on, sockets_here()
    asked: List[int] = []

    def only_three(family: int, address: str, port: int = 0) -> socket.socket:
        asked.append(family)
        if len(asked) > 3:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return bound_on(family, address, port)

    monkeypatch.setattr(kept_ports, "bound_on", only_three)
    with pytest.raises(JobError) as refused:
        reserve(8)
    said = "A job of 8 ranks on the stub needs 9 free TCP ports; after 3 there was no other: "
    assert refused.value.message == f"{said}Address already in use."
    assert refused.value.hint
    assert sockets_here() == before


@pytest.mark.parametrize(
    "asked",
    [{"show": "7"}, {"script": "not_there.py"}],
    ids=["show", "script"],
)
def test_a_plan_that_fails_keeps_nothing(bench: Bench, asked: Dict[str, Any]) -> None:
    before = sockets_here()
    with pytest.raises(AscendError) as refused:
        bench.plan(processes=2, **asked)
    assert sockets_here() == before, refused.value


def _raise_when_planned(event: Event) -> None:
    if isinstance(event, Planned):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("more", "on_event", "error"),
    [
        ({"events": "/nowhere/events"}, None, AscendError),
        ({"log_dir": "/dev/null/logs"}, None, PreflightError),
        ({"log_dir": "/dev/null/logs", "preflight": False}, None, JobError),
        ({}, _raise_when_planned, ZeroDivisionError),
    ],
    ids=["events", "checked folder", "folder", "listener"],
)
def test_a_launch_that_fails_keeps_nothing(
    tmp_path: Path, more: Dict[str, Any], on_event: Callable[[Event], None], error: type
) -> None:
    before = sockets_here()
    with pytest.raises(error) as failed:
        launch(config(tmp_path, "", 2, **more), output=2, on_event=on_event)
    assert sockets_here() == before, failed.value


def test_ports_are_kept_until_the_attempt_is_over_and_the_next_has_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Launch, "_wait", lambda launch, why, seconds: True)
    before = sockets_here()
    plans: List[Plan] = []
    kept: List[bool] = []

    def note(event: Event) -> None:
        if isinstance(event, Planned):
            plans.append(event.plan)
            kept.extend(all(is_held(earlier)) for earlier in plans[:-1])
        if isinstance(event, Over):
            kept.append(all(is_held(plans[-1])))

    def is_held(made: Plan) -> List[bool]:
        mine = {port for other in plans if other is not made for port in ports(other)}
        return [not can_be_had(port) for port in ports(made) if port not in mine]

    transient = "sys.exit('EJ0001: Failed to initialize the HCCP process')"
    asked = config(tmp_path, transient, 2, max_restarts=1)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        result = launch(asked, output=null, on_event=note)
    finally:
        os.close(null)
    assert len(result.attempts) == 2
    assert kept == [True, False, True]
    assert ports(plans[0]) != ports(plans[1])
    assert sockets_here() == before


def test_a_launch_within_a_rank_has_ports_of_its_own(tmp_path: Path) -> None:
    inner = f"import os; print(os.environ[{COORDINATOR!r}], os.environ[{PORT!r}])"
    code = f"""
if rank == 1:
    command = [sys.executable, "-m", "ascend_session.cli", "launch", "-n", "2", "--no-python",
               "--log-dir", {str(tmp_path / "inner")!r}, sys.executable, "-S", "-c", {inner!r}]
    subprocess.run(command, check=True, env={{**os.environ, "PYTHONPATH": {str(_REPOSITORY)!r}}})
"""
    run = job(tmp_path, code, ranks=2)
    assert run.statuses == [0, 0], run.said(1, "stderr")
    said = sorted(run.said(1).splitlines())
    assert [line[:4] for line in said] == ["[0] ", "[1] "]
    (first, one), (second, other) = (line[4:].split() for line in said)
    assert first == second
    inner_ports = {int(first.rpartition(":")[2]), int(one), int(other)}
    assert len(inner_ports - set(ports(run.plan))) == 3


def test_plans_that_are_made_at_the_same_time_share_no_port(bench: Bench) -> None:
    plans: List[Plan] = []
    threads = [
        threading.Thread(target=lambda: plans.append(bench.plan(processes=50))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = [port for made in plans for port in ports(made)]
    assert len(together) == len(set(together)) == 8 * 51

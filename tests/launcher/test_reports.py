"""When the guardian reads what ranks report, and what it passes on."""

import json
from pathlib import Path
from typing import Any, List, Optional

from ascend_session.launcher.events import Event
from ascend_session.launcher.job.events import Ended, Reported
from ascend_session.launcher.job.reports import NotFinite, Reports
from tests.launcher.supervised import PATIENCE, in_launcher, job

_ROOT = Path(__file__).resolve().parents[2]
_BEGIN = f"sys.path.insert(0, {str(_ROOT)!r})\nfrom ascend_session import channel\n"
_WAIT = """
from tests.waiting import wait_until
folder = os.path.dirname(os.environ["GATE"])
def wait_for(name):
    wait_until(lambda: os.path.lexists(os.path.join(folder, name)))
"""


def _reported(events: List[Event]) -> List[Any]:
    return [(each.rank, each.message["step"]) for each in events if isinstance(each, Reported)]


def test_what_a_rank_has_reported_comes_before_its_exit(tmp_path: Path) -> None:
    code = _BEGIN + 'for step in range(50): channel.send("first_step", step=step)'
    events = job(tmp_path, code, ranks=1).events
    assert _reported(events) == [(0, step) for step in range(50)]
    names = [type(event) for event in events if isinstance(event, (Reported, Ended))]
    assert names.index(Ended) == 50


def test_a_rank_is_read_from_although_it_connected_when_another_one_exited(
    tmp_path: Path,
) -> None:
    code = f"""{_BEGIN}{_WAIT}
if rank == 1:
    os.symlink(str(os.getpid()), os.path.join(folder, "pid"))  # which is there as a whole
    wait_for("exit")
else:
    wait_for("pid")
    os.kill(os.getppid(), signal.SIGSTOP)  # it finds both at once
    channel.send("first_step", step=1)
    open(os.path.join(folder, "exit"), "w").close()
    pid = os.readlink(os.path.join(folder, "pid"))
    wait_until(lambda: ") Z " in open("/proc/" + pid + "/stat").read())
    os.kill(os.getppid(), signal.SIGCONT)
    wait_for("1")
    channel.send("first_step", step=2)
    wait_for("2")
"""

    def note(event: Event) -> None:
        if isinstance(event, Reported):
            (tmp_path / str(event.message["step"])).touch()

    run = job(tmp_path, code, ranks=2, on_event=note)
    assert run.statuses == [0, 0]
    assert _reported(run.events) == [(0, 1), (0, 2)]


def test_a_second_process_of_a_rank_does_not_take_back_what_the_first_has_reported() -> None:
    reports = Reports()

    def see(pid: int, step: Optional[int]) -> None:
        values = {"step": step, "variable": "w", "is_own": True}
        reports.note(3, pid, {"kind": "not_finite", **values})

    see(7, 5)
    see(7, 6)  # the first one counts
    see(8, 2)
    see(8, None)
    assert reports.not_finite == {3: NotFinite(7, 5, "w", True)}
    see(7, None)
    assert reports.not_finite == {}
    see(7, 9)
    assert reports.not_finite == {3: NotFinite(7, 9, "w", True)}


def test_how_a_process_failed_is_known_from_its_witness_or_from_itself() -> None:
    reports = Reports()
    for pid, of_witness, of_itself in (
        (10, "failed", "open"),
        (11, "failed", "failed"),
        (12, "ended", "failed"),
        (13, "ended", "closed"),
        (14, "started", "open"),
    ):
        state = {"pid": pid, "rank": pid - 10, "time": 1.0, "waits": [], "rank_size": "5"}
        seen = {**state, "state": of_witness, "error": "E: seen", "joined": False}
        reports.note(0, pid, {"kind": "witness", **seen})
        own = {**state, "state": of_itself, "error": "E: own" if of_itself == "failed" else ""}
        reports.note(0, pid, {"kind": "state", **own, "rank_size": ""})
    reports.note(0, 13, {"kind": "exit", "code": 0})
    processes = reports.list_processes(0)
    assert [(each.rank, each.state, each.error) for each in processes] == [
        (0, "failed", "E: seen"),
        (1, "failed", "E: own"),
        (2, "failed", "E: own"),
        (3, "closed", ""),
        (4, "open", ""),
    ]
    assert {(each.joined, each.rank_size) for each in processes} == {(True, "5")}
    reports.note(0, 13, {"kind": "exit", "code": 3})
    assert reports.list_processes(0)[3][2:4] == ("failed", "SystemExit: 3")


def test_messages_that_another_version_may_send_do_no_harm(tmp_path: Path) -> None:
    code = f"""{_BEGIN}
channel.send("gaps", gaps=[[1, 2]], have_parts=False)
channel.send("gaps")
for kind in ("state", "joining", "step", "first_step", "not_finite", "models", "replaced", "new"):
    channel.send(kind, step="seven")
"""
    events = job(tmp_path, code, ranks=2).events
    assert [each.status for each in events if isinstance(each, Ended)] == [0, 0]
    assert len([each for each in events if isinstance(each, Reported)]) == 20


def test_a_launcher_that_was_stopped_misses_steps_and_hears_all_else(tmp_path: Path) -> None:
    code = f"""{_BEGIN}
from ascend_session.cluster import member
from tests.waiting import wait_until

def send(kind, **values):
    wait_until(lambda: channel.send(kind, **values))
    wait_until(lambda: channel._find_connection()._count_unread() == 0)  # the guardian has it

launcher = int(open("/proc/" + str(os.getppid()) + "/stat").read().rpartition(")")[2].split()[1])
member.join(rank)
send("step", step=1, total=None, time=0.0)
os.kill(launcher, signal.SIGSTOP)
wait_until(lambda: ") T " in open("/proc/" + str(launcher) + "/stat").read())
for _ in range(20):  # more than the socket between guardian and launcher has room for
    send("replaced", options=[["filler", "x" * 50_000, None]])
send("step", step=2, total=None, time=0.0)
send("gaps", gaps=[], have_parts=False)
send("models", is_one_model=False, error="no", notes=["a"], late_shares=[], slow_rank=None)
send("replaced", options=[["precision_mode", "must_keep_origin_dtype", None]])
member.fail(ValueError("it failed"))
send("step", step=3, total=None, time=0.0)
os.kill(launcher, signal.SIGCONT)
os._exit(3)
"""
    with in_launcher(tmp_path, code, ranks=1) as process:
        out, err = process.communicate(timeout=PATIENCE)
    noticed = json.loads(out)
    assert noticed["statuses"] == [3], err
    assert noticed["progress"] == [[1, None, 0.0]]
    assert noticed["models"] == [[False, "no", ["a"], [], None]]
    assert noticed["replaced"] == [[["precision_mode", "must_keep_origin_dtype", None]]]
    (((_, _, state, error, *_),),) = noticed["members"]
    assert (state, error) == ("failed", "ValueError: it failed")

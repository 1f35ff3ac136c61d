"""What the launcher says of ranks that wait long for others, while the job goes on."""

import contextlib
import fcntl
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from ascend_session import LaunchConfig, launch
from ascend_session.cluster.member import CollectiveWait
from ascend_session.launcher.events import Event, EventFile
from ascend_session.launcher.job.events import Ended, Located, Stalled, StallNote
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.show.screen import Notices
from ascend_session.launcher.verdict.result import judge
from ascend_session.rank_folder import RANK_FOLDER, STACK_SIGNAL
from tests.launcher.supervised import JobRun, job
from tests.launcher.test_stall import Ranks, complete, watch_over

_ROOT = Path(__file__).resolve().parents[2]

# What ranks have at hand, in a file that is no user's: to wait for the test, and for other ranks.
_HELPER = """
import fcntl, os
from ascend_session.cluster import member
from tests.waiting import wait_until

rank, size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])

def meet():  # the first look would find ranks that have not begun
    open(os.environ["HELD"] + str(rank), "w").close()
    wait_until(lambda: all(os.path.exists(os.environ["HELD"] + str(one)) for one in range(size)))

def wait_for_the_test():
    with open(os.environ["HELD"]) as held:
        fcntl.flock(held, fcntl.LOCK_SH)

def wait_in(name="gradients", ranks=range(4), is_first=False):
    with member.waiting(name, name, ranks, "allreduce sum float32 [2]", is_first):
        wait_for_the_test()

member.join(rank)
meet()
"""


class Jobs:
    """Runs jobs whose ranks wait until the test has heard enough."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        packages = folder / "site-packages"
        packages.mkdir()
        (packages / "helper.py").write_text(_HELPER)
        self._path = os.pathsep.join([str(packages), str(_ROOT)])
        self._held = (folder / "held").open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let the ranks go on."""
        fcntl.flock(self._held, fcntl.LOCK_UN)

    def notes(self, code: str, ranks: int = 4, count: int = 1, **asked: Any) -> List[str]:
        """Runs a script until there are so many notes."""
        script = self._folder / "train.py"
        script.write_text(code)
        notes: List[str] = []

        def hear(event: Event) -> None:
            if isinstance(event, StallNote):
                notes.append(event.note)
                if len(notes) == count:
                    self._before_release(event.note)
                    self.release()

        env = {
            "PYTHONPATH": self._path,
            "HELD": str(self._folder / "held"),
            "ASCEND_SESSION_STALL_NOTE": "1",
            **asked.pop("env", {}),
        }
        options = {"args": [str(script)], "cwd": str(self._folder), **asked}
        run = job(self._folder, "", ranks, on_event=hear, env=env, **options)
        assert run.statuses == [0] * ranks, [run.said(rank, "stderr") for rank in range(ranks)]
        assert not any(isinstance(event, Stalled) for event in run.events)
        return notes[:count]

    def asked(self, code: str, number: signal.Signals, ranks: int = 4) -> JobRun:
        """Sends the launcher a signal when there is a note, and releases the ranks on an answer."""
        script = self._folder / "train.py"
        script.write_text(code)
        env = {
            "PYTHONPATH": self._path,
            "HELD": str(self._folder / "held"),
            "ASCEND_SESSION_STALL_NOTE": "1",
        }

        def hear(event: Event) -> None:
            if isinstance(event, StallNote):
                os.kill(os.getpid(), number)
            if isinstance(event, Located):
                self.release()

        options = {"args": [str(script)], "cwd": str(self._folder)}
        return job(self._folder, "", ranks, on_event=hear, env=env, **options)

    def _before_release(self, note: str) -> None:
        stopped = re.search(r"kill -CONT ([0-9]+)", note)
        if stopped is not None:
            os.kill(int(stopped.group(1)), signal.SIGCONT)

    def close(self) -> None:
        self._held.close()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with contextlib.closing(Jobs(tmp_path)) as made:
        yield made


_LATE = """
from helper import *

def load_batch():
    wait_for_the_test()

def train():
    wait_in()

load_batch() if rank == 2 else train()
"""


def test_where_everybody_is_is_said_when_it_is_asked_for_and_the_job_goes_on(jobs: Jobs) -> None:
    run = jobs.asked(_LATE, signal.SIGQUIT)
    assert run.statuses == [0] * 4
    (located, *_) = [event for event in run.events if isinstance(event, Located)]
    late, waiting = located.places
    assert late == "rank 2 is at train.py:5 (load_batch)"
    assert re.fullmatch(
        r"ranks 0-1 and 3 have waited \d+ s for it in allreduce 'gradients', train\.py:8", waiting
    )


def test_each_rank_is_located_also_where_they_are_many_and_only_some_wait(jobs: Jobs) -> None:
    code = "from helper import *\nif rank < 2: wait_in(ranks=range(3))\n"
    code += "".join(f"if rank == {rank}: wait_for_the_test()\n" for rank in range(2, 8))
    run = jobs.asked(code, signal.SIGQUIT, ranks=8)
    assert run.statuses == [0] * 8
    (located, *_) = [event for event in run.events if isinstance(event, Located)]
    *elsewhere, waiting = located.places
    assert elsewhere == [
        f"rank {rank} is at train.py:{rank + 1} (<module>)" for rank in range(2, 8)
    ]
    assert re.fullmatch(
        r"ranks 0-1 have waited \d+ s for rank 2 in allreduce 'gradients', train\.py:2", waiting
    )


def test_the_end_of_a_job_that_stood_still_repeats_who_waits_for_whom(jobs: Jobs) -> None:
    run = jobs.asked(_LATE, signal.SIGINT)
    judge(run.plan, run.attempt)
    assert run.attempt.cause is not None
    assert re.fullmatch(
        r"The launcher was stopped by SIGINT \(Ctrl-C\)\. The job stood still: rank 2 is at "
        r"train\.py:5 \(load_batch\); ranks 0-1 and 3 have waited \d+ s for it in allreduce "
        r"'gradients', train\.py:8\.",
        run.attempt.cause.said,
    )
    notes = [event for event in run.events if isinstance(event, StallNote)]
    assert len(notes) == 1


def test_the_end_of_a_rank_is_noticed_while_another_one_does_not_say_where_it_is(
    jobs: Jobs,
) -> None:
    run = jobs.asked(
        f"""
from helper import *
import signal
if rank == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, [{STACK_SIGNAL}])
    wait_for_the_test()
if rank == 1:
    stacks = os.path.join(os.environ["{RANK_FOLDER}"], "stacks.log")
    wait_until(lambda: os.path.getsize(stacks))
if rank == 2:
    wait_in(ranks=range(3))
""",
        signal.SIGQUIT,
        ranks=3,
    )
    assert run.statuses == [0] * 3
    kinds = [event for event in run.events if isinstance(event, (Ended, StallNote))]
    assert isinstance(kinds[0], Ended)
    assert kinds[0].rank == 1
    assert isinstance(kinds[1], StallNote)


def test_the_others_wait_for_a_rank_which_is_said_ever_more_rarely(jobs: Jobs) -> None:
    notes = jobs.notes(_LATE, count=2)
    times = []
    for note in notes:
        match = re.fullmatch(
            r"rank 2 is at train\.py:5 \(load_batch\); ranks 0-1 and 3 have waited (\d+) s for it "
            r"in allreduce 'gradients', train\.py:8\.",
            note,
        )
        assert match is not None, note
        times.append(int(match.group(1)))
    assert times == sorted(times)
    assert times[-1] >= 2


def test_ranks_in_the_same_run_for_the_first_time_are_probably_compiling(jobs: Jobs) -> None:
    code = """
from helper import *
def run():
    (wait_for_the_test if rank == 2 else lambda: wait_in(is_first=True))()
run()
"""
    # As TensorFlow's, the frames inside of the run are no user's.
    code = code.replace("lambda: wait_in(is_first=True)", "first")
    helper = jobs._folder / "site-packages" / "helper.py"
    helper.write_text(_HELPER + "\ndef first():\n    wait_in(is_first=True)\n")
    (note,) = jobs.notes(code)
    assert note == (
        "all ranks are in the same run for the first time, train.py:4: probably compiling."
    )


def test_a_stopped_rank_is_said_to_be_stopped(jobs: Jobs) -> None:
    code = """
from helper import *
import signal
os.kill(os.getpid(), signal.SIGSTOP) if rank == 0 else wait_in(ranks=[0, 1])
"""
    (note,) = jobs.notes(code, ranks=2)
    assert re.match(r"rank 0 is stopped \(`kill -CONT \d+` continues it\); rank 1 has ", note)


def test_ranks_in_different_collectives_are_said_to_wait_for_each_other(jobs: Jobs) -> None:
    code = """
from helper import *
wait_in("ab"[rank % 2], range(2))
"""
    (note,) = jobs.notes(code, ranks=2)
    waits = r"rank ([01]) is waiting in allreduce '([ab])', train\.py:3; rank [01] has waited \d s "
    assert re.match(waits + r"for it in allreduce '([ab])', train\.py:3\.", note), note


def test_ranks_of_another_node_may_be_waited_for(jobs: Jobs) -> None:
    (note,) = jobs.notes("from helper import *\nwait_in()", ranks=2)
    assert re.match(r"ranks 0-1 have waited \d+ s for ranks 2-3, some on other nodes in ", note)


def test_ranks_of_a_script_below_a_rank_are_told_apart(jobs: Jobs) -> None:
    script = jobs._folder / "train_3p.sh"
    script.write_text(
        "export RANK_SIZE=3\n"
        "for ((RANK_ID=0; RANK_ID<RANK_SIZE; RANK_ID++)); do\n"
        f"    export RANK_ID; {sys.executable} train.py &\n"
        "done\nwait\n"
    )
    code = _LATE.replace("wait_in()", "wait_in(ranks=range(3))")
    (note,) = jobs.notes(code, ranks=1, program="bash", args=[str(script)])
    assert note.startswith("rank 2 is at train.py:5 (load_batch); ranks 0-1 have waited ")


_SAME_NUMBER = {
    "a board that never joins counts for nothing, and starts last": ("join(); wait()", "wait()"),
    "a board that never joins counts for nothing, and starts first": ("wait()", "join(); wait()"),
    "of two that have joined, the one that reported last counts": (
        "join(); wait()",
        "join(); wait()",
    ),
}


@pytest.mark.parametrize("how", _SAME_NUMBER)
def test_of_two_processes_with_the_number_of_a_rank_the_one_that_has_joined_counts(
    jobs: Jobs, how: str
) -> None:
    first, second = _SAME_NUMBER[how]
    helper = jobs._folder / "site-packages" / "helper.py"
    begin, _, _ = _HELPER.rpartition("member.join(rank)")
    helper.write_text(
        f"{begin}\njoin = lambda: member.join(rank)\nwait = wait_for_the_test\n"
        'def touch(name): open(os.environ["HELD"] + name, "w").close()\n'
    )
    for name, code in (("first", first), ("second", second)):
        steps = code.replace("; ", "\n").replace("wait()", f"touch('{name}')\nwait()")
        (jobs._folder / f"{name}.py").write_text(f"from helper import *\n{steps}\n")
    script = jobs._folder / "train_2p.sh"
    script.write_text(
        "export RANK_SIZE=2\n"
        "for file in first second; do\n"  # one after the other
        f"    RANK_ID=1 {sys.executable} $file.py & until [ -e $HELD$file ]; do sleep 0.1; done\n"
        f"done; RANK_ID=0 {sys.executable} train.py & wait\n"
    )
    code = "from helper import *\njoin()\nwait_in(ranks=range(2))\n"
    (note,) = jobs.notes(code, ranks=1, program="bash", args=[str(script)])
    counts = "first.py" if "starts last" in how else "second.py"
    assert re.match(rf"rank 1 is at {counts}:\d+ \(<module>\); rank 0 has waited ", note), note


def test_silence_of_all_ranks_is_noted_with_where_each_is(jobs: Jobs) -> None:
    env = {"ASCEND_SESSION_STALL_NOTE": "0.3"}
    (note,) = jobs.notes(_LATE.replace("wait_in()", "wait_for_the_test()"), env=env)
    head = "no rank has written anything or used a CPU for "
    assert note.startswith(head)
    assert "; ranks 0-1 and 3 are at train.py:8 (train)" in note
    assert "; rank 2 is at train.py:5 (load_batch)" in note


def test_nothing_is_noted_where_nobody_wants_it(tmp_path: Path) -> None:
    code = """
os.environ["PYTHONPATH"] and sys.path.insert(0, os.environ["PYTHONPATH"])
from ascend_session.cluster import member
member.join(rank)
with member.waiting("a", "a", [0, 1], "allreduce", False):
    time.sleep(1.5)  # longer than a note takes
"""
    env = {"PYTHONPATH": str(_ROOT), "ASCEND_SESSION_STALL_NOTE": "0"}
    run = job(tmp_path, code, ranks=1, env=env)
    assert run.statuses == [0]
    assert not any(isinstance(event, StallNote) for event in run.events)


def test_what_was_noted_at_one_place_is_noted_again_only_if_it_takes_longer(
    tmp_path: Path,
) -> None:
    """Such as evaluation on rank 0 after each epoch."""
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with Ranks(tmp_path, [command, command]) as ranks:
        reports = Reports()
        watch = watch_over(ranks.plan, None, 2.0, reports)

        def look(waited_s: float) -> Any:
            wait: Dict[str, Any] = {
                "key": "a",
                "what": "allreduce 'a'",
                "ranks": [0, 1],
                "since": time.monotonic() - waited_s,
                "place": "train.py:3",
                "is_first": False,
            }
            state = {"kind": "state", "rank": 1, "state": "open", "error": ""}
            pid = ranks.processes[1].pid
            reports.note(1, pid, {**state, "pid": pid, "time": 0.0, "waits": [wait]})
            assert len(reports.members[1]) == 1
            time.sleep(watch.next_look_s())
            return complete(watch.look(ranks.alive))

        assert look(0.5) is None
        assert isinstance(look(2.2), StallNote)
        assert look(2.4) is None
        assert isinstance(look(4.5), StallNote)
        assert look(4.5) is None


def test_a_note_is_an_event(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with EventFile(str(path)) as events:
        events.write(StallNote("rank 1 is late.", 5.0), Notices(print))
    assert json.loads(path.read_text()) == {
        "event": "stall_note",
        "time": 5.0,
        "note": "rank 1 is late.",
    }


_TRAINING = """
import os, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl

def load_batch(rank):
    while rank == 1 and not os.path.exists("go"):
        time.sleep(0.01)
    return [1, rank]

x = tf.placeholder(tf.float32, [2])
with tf.name_scope("gradients"):
    total = hccl.allreduce(x, "sum")
with ascend_system() as system, system.session() as sess:
    sess.run(total, {x: [0, 0]})
    sess.run(total, {x: load_batch(system.rank)})
"""


def test_the_stub_knows_who_waits_in_which_collective(tmp_path: Path, forking_python: str) -> None:
    (tmp_path / "train.py").write_text(_TRAINING)
    notes: List[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, StallNote) and "load_batch" in event.note:
            notes.append(event.note)
            (tmp_path / "go").touch()

    config = LaunchConfig(
        script="train.py",
        processes=2,
        backend="stub",
        python=forking_python,
        cwd=str(tmp_path),
        show="none",
        env={"PYTHONPATH": str(_ROOT), "ASCEND_SESSION_STALL_NOTE": "1"},
    )
    result = launch(config, on_event=hear)
    assert result.ok
    assert re.match(
        r"rank 1 is at train\.py:\d+ \(load_batch\); rank 0 has waited \d+ s for it in allreduce "
        r"'gradients/HcomAllReduce', train\.py:17\.",
        notes[0],
    ), notes
    reported = result.attempts[0].reports.members
    members = [member for rank in sorted(reported) for member in reported[rank].values()]
    assert [(member.rank, member.state, member.waits) for member in members] == [
        (0, "ended", ()),
        (1, "ended", ()),
    ]


def test_a_time_in_which_all_ranks_were_stopped_is_no_wait(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with Ranks(tmp_path, [command, command]) as ranks:
        pid = ranks.processes[1].pid

        def look(waited_s: float, *stopped: float) -> Any:
            now_s, reports = time.monotonic(), Reports()
            watch = watch_over(ranks.plan, None, 100.0, reports)
            wait = CollectiveWait("a", "allreduce 'a'", (0, 1), now_s - waited_s, "", False)
            state = {"kind": "state", "rank": 1, "state": "open", "error": "", "pid": pid}
            reports.note(1, pid, {**state, "time": now_s, "waits": [wait._asdict()]})
            assert len(reports.members[1]) == 1
            for began_s, ended_s in zip(stopped[::2], stopped[1::2]):
                watch.leave_out(now_s - began_s, now_s - ended_s)
            return complete(watch.look(ranks.alive))

        assert look(320, 240, 0) is None
        for stopped in [(660, 600, 240, 30), (900, 390)]:  # a stop may begin before the wait
            note = look(660, *stopped)
            assert isinstance(note, StallNote)
            assert "rank 1 has waited 6 min 3" in note.note

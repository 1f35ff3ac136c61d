"""When a job counts as stalled, and what is said of it: real processes, watched as a job's are."""

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import psutil
import pytest

from ascend_session.backends import backend_class
from ascend_session.launcher.job.activity import Processes, WatchedJob, list_family
from ascend_session.launcher.job.events import Stalled
from ascend_session.launcher.job.job_message import describe_rank
from ascend_session.launcher.job.places import Inquiry
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.job.stall import StallWatch
from ascend_session.launcher.plan.plan import Plan, plan_job
from ascend_session.launcher.plan.stall_limits import describe_limits
from ascend_session.launcher.show.following import Output
from ascend_session.rank_folder import STACK_SIGNAL, STACKS_NAME
from tests.launcher.jobs import Bench, bench
from tests.launcher.supervised import PATIENCE, config
from tests.waiting import wait_until

__all__ = ["bench"]

_SPIN = "while True: pass"
_HANG = "import sys; sys.stdin.read()"
# What the witness does for a rank: its first argument is the rank's folder.
_OURS = f"""
import faulthandler, sys, threading, time
file = open(sys.argv[1] + "/{STACKS_NAME}", "w")
faulthandler.register({int(STACK_SIGNAL)}, file=file, all_threads=True, chain=False)
def where_it_hangs():
    print("ready", flush=True)
    sys.stdin.read()
"""


def complete(inquiry: "Optional[Inquiry[Any]]") -> Any:
    """Wait for the answer, as the guardian does."""
    if inquiry is None:
        return None
    wait_until(inquiry.is_answered)
    return inquiry.read_answer()


def watch_over(
    planned: Plan, timeout_s: Optional[float], note_s: float = 0, reports: Optional[Reports] = None
) -> StallWatch:
    """What the guardian makes for such a job."""
    limits = [] if timeout_s is None else describe_limits(timeout_s, planned.backend, planned.ranks)
    ranks = map(describe_rank, planned.ranks)
    folder, cwd = planned.folder, planned.ranks[0].cwd
    job = WatchedJob(tuple(ranks), planned.size, folder, cwd, timeout_s, note_s, tuple(limits))
    return StallWatch(job, reports or Reports())


class Ranks:
    """A process for each command, in a session of its own, and a watch over them."""

    def __init__(self, folder: Path, commands: Sequence[List[str]], seconds: float = 1.0) -> None:
        self.plan = plan_job(config(folder, "", len(commands)), dict(os.environ))
        self._null = os.open(os.devnull, os.O_WRONLY)
        self.output = Output(self._null, len(commands), (), False, False)
        self.output.follow(self.plan.ranks)
        self.processes: List[Any] = []
        for rank, command in zip(self.plan.ranks, commands):
            whole = [*command, rank.folder]
            options: Dict[str, Any] = {"stdin": subprocess.PIPE, "start_new_session": True}
            with open(rank.stdout, "ab") as stdout, open(rank.stderr, "ab") as stderr:
                self.processes.append(
                    subprocess.Popen(whole, stdout=stdout, stderr=stderr, **options)
                )
        os.makedirs(self.plan.folder, exist_ok=True)
        self.watch = watch_over(self.plan, seconds)
        self.sentences: Tuple[str, ...] = ()

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *failure: Any) -> None:
        for process in self.processes:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.stdin.close()
            process.wait(PATIENCE)
        self.output.finish()
        self.output.close()
        os.close(self._null)

    @property
    def alive(self) -> Dict[int, int]:
        return {n: one.pid for n, one in enumerate(self.processes) if one.poll() is None}

    def report(self, within: float = PATIENCE) -> List[str]:
        """Looks whenever it is time, until there is a report or the time is over.

        Returns:
            What the file of the report has: a sentence, and a block for each rank.
        """
        limit = time.monotonic() + within
        event = None
        while event is None and time.monotonic() < limit:
            time.sleep(self.watch.next_look_s())
            event = complete(self.watch.look(self.alive))
        if not isinstance(event, Stalled):
            return []
        self.sentences = event.report
        text = Path(self.plan.folder, "stalled.log").read_text()
        assert text.startswith(event.report[0])
        return re.split(r"\n(?=Rank \d+ |Exited )", text.rstrip("\n"))

    def ready(self, rank: int = 0) -> None:
        """Waits for the rank's first line."""
        wait_until(lambda: self.output.latest(rank) is not None)


def test_a_watch_without_limits_wants_no_look(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(_HANG)]) as ranks:
        watch = watch_over(ranks.plan, None)
        assert complete(watch.look(ranks.alive)) is None
        assert watch.next_look_s() == math.inf


def _python(code: str) -> List[str]:
    return [sys.executable, "-S", "-c", code]


def _shell(code: str) -> List[str]:
    return ["/bin/sh", "-c", code]


def test_ranks_that_hang_are_reported_each_with_state_and_place(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(_HANG), ["/bin/cat", "-"]]) as ranks:
        begun = time.monotonic()
        first, *blocks = ranks.report()
        assert time.monotonic() - begun >= 1
        assert first.startswith(
            "The job stalled: no rank has written anything or used a CPU for 1 s; "
        )
        assert str(tmp_path) in ranks.sentences[1]
        assert [block.split(" has ")[0] for block in blocks] == ["Rank 0", "Rank 1"]
        for process, block in zip(ranks.processes, blocks):
            assert "has written nothing and last used a CPU " in block
            assert f": process {process.pid} (" in block
            assert " is sleeping" in block
            assert block.endswith(", threads: 1.")
        place = Path(f"/proc/{ranks.processes[0].pid}/wchan").read_text().strip("0\n")
        assert place in blocks[0]
        # Whoever has no stacks to write is not sent the signal, which would end it.
        assert ranks.alive.keys() == {0, 1}


_LIVING = {
    "computes": _python(_SPIN),
    "has a child that computes": _python(
        f"import subprocess, sys; subprocess.call([sys.executable, '-c', {_SPIN!r}])"
    ),
    "writes": _python("import time\nwhile True: print('here', flush=True); time.sleep(0.1)"),
    "has a new child now and then": _shell("while :; do sleep 0.3; done"),
}


def _before_and_after_its_death(ranks: Ranks) -> Tuple[List[str], List[str]]:
    """What is reported in three times the limit, and once rank 1 is no more."""
    before = ranks.report(within=3)
    os.killpg(ranks.processes[1].pid, signal.SIGKILL)
    ranks.processes[1].wait()
    return before, ranks.report()


def test_one_rank_that_lives_is_enough(tmp_path: Path) -> None:
    # All at the same time, because each takes its time.
    with contextlib.ExitStack() as left, ThreadPoolExecutor(len(_LIVING)) as threads:
        jobs = {
            how: left.enter_context(Ranks(tmp_path / how, [_python(_HANG), command]))
            for how, command in _LIVING.items()
        }
        reports = dict(zip(jobs, threads.map(_before_and_after_its_death, jobs.values())))
    assert {how: before for how, (before, _) in reports.items()} == {how: [] for how in _LIVING}
    assert all(after for _, after in reports.values())


def test_a_thread_that_polls_with_half_a_percent_of_a_cpu_is_no_life(tmp_path: Path) -> None:
    code = """
import sys, threading, time
def poll():
    while True:
        time.sleep(0.1)
        end = time.thread_time() + 0.0004
        while time.thread_time() < end: pass
threading.Thread(target=poll, daemon=True).start()
sys.stdin.read()
"""
    with Ranks(tmp_path, [_python(code)], seconds=4) as ranks:
        report = ranks.report()
        assert "threads: 2." in report[1]


@pytest.mark.parametrize("is_deep", [False, True], ids=["child", "child of a child"])
def test_what_an_ended_child_once_used_is_no_use_now(tmp_path: Path, is_deep: bool) -> None:
    use = "while time.process_time() < 0.6: pass"
    code = f"""
import os, signal, sys, time
child = os.fork()
if not child:
    if {is_deep} and not os.fork():
        {use}
        os._exit(0)
    if {is_deep}:
        os.wait()
    else:
        {use}
    print("done", flush=True)
    signal.pause()
print(child, flush=True)
os.waitpid(child, 0)
signal.pause()
"""
    with Ranks(tmp_path, [_python(code)]) as ranks:
        processes = Processes({rank.folder: rank.rank for rank in ranks.plan.ranks})
        assert processes.look(ranks.alive) == {0: float("inf")}
        log = Path(ranks.plan.ranks[0].stdout)
        wait_until(lambda: "done" in log.read_text())
        processes.look(ranks.alive)
        child = int(next(word for word in log.read_text().split() if word != "done"))
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(child))
        times = psutil.Process(ranks.processes[0].pid).cpu_times()
        assert times.children_user + times.children_system > 0.5
        assert processes.look(ranks.alive)[0] < 0.3


def test_only_processes_below_the_ranks_are_looked_at(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("all processes of the machine are read")

    monkeypatch.setattr(psutil, "pids", refuse)
    monkeypatch.setattr(psutil, "_ppid_map", refuse, raising=False)
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_HANG!r}])"
    with Ranks(tmp_path, [_python(code)]) as ranks:
        report = ranks.report()
        assert report[1].count("process ") == 2


def test_a_thread_that_ends_during_a_look_hides_no_child_of_others(monkeypatch: Any) -> None:
    threads = os.listdir
    # As when the first thread of the list ends before it is looked at.
    monkeypatch.setattr(os, "listdir", lambda path: ["ended", *threads(path)])
    with subprocess.Popen([sys.executable, "-c", _HANG], stdin=subprocess.PIPE) as child:
        family = [process.pid for process in list_family(os.getpid())]
        child.kill()
    assert family[0] == os.getpid()
    assert child.pid in family


def test_what_came_and_went_between_two_looks_counts(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
sys.stdin.readline()
if not os.fork():
    while time.process_time() < 0.3: pass
    os._exit(0)
os.wait()
print("done", flush=True)
signal.pause()
"""
    with Ranks(tmp_path, [_python(code)]) as ranks:
        processes = Processes({rank.folder: rank.rank for rank in ranks.plan.ranks})
        processes.look(ranks.alive)
        ranks.processes[0].stdin.write(b"\n")
        ranks.processes[0].stdin.flush()
        ranks.ready()
        assert 0.2 < processes.look(ranks.alive)[0] < 100


def test_the_end_of_a_rank_is_a_sign_of_life_and_is_said(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(_HANG), _python(_HANG)]) as ranks:
        assert ranks.report(within=0.6) == []
        ranks.processes[0].stdin.close()
        ranks.processes[0].wait()
        begun = time.monotonic()
        report = ranks.report()
        assert time.monotonic() - begun > 0.9
        assert [line.split(" has ")[0] for line in report[1:2]] == ["Rank 1"]
        assert report[-1] == "Exited with code 0 before that: rank 0."


def test_a_time_without_looks_does_not_count(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(_HANG)]) as ranks:
        assert ranks.report(within=0.4) == []
        time.sleep(1.5)  # longer than the limit
        assert complete(ranks.watch.look(ranks.alive)) is None
        assert ranks.report()


def test_looks_are_rare_and_an_early_one_does_nothing(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(_HANG)], seconds=600) as ranks:
        complete(ranks.watch.look(ranks.alive))
        assert 0 < ranks.watch.next_look_s() <= 5
        before = time.process_time()
        for _ in range(1000):
            assert complete(ranks.watch.look(ranks.alive)) is None
        assert time.process_time() - before < 10  # a real look at each would take longer


def test_logs_of_a_file_server_with_a_fast_clock_do_not_hide_a_stall(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(f"print('here', flush=True); {_HANG}")]) as ranks:
        ranks.ready()
        tomorrow = time.time() + 86_400
        os.utime(ranks.plan.ranks[0].stdout, (tomorrow, tomorrow))
        assert ranks.report(within=30)


# Stacks


def test_a_rank_of_ours_says_where_it_hangs_and_lives_on(tmp_path: Path) -> None:
    code = _OURS + "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    with Ranks(tmp_path, [_python(code + "where_it_hangs()")]) as ranks:
        ranks.ready()
        (_, block) = ranks.report()
        assert "threads: 2.\nThread 0x" in block
        assert " in where_it_hangs" in block
        assert " last wrote " in block
        assert ranks.alive


def test_what_was_written_before_is_not_shown(tmp_path: Path) -> None:
    code = _OURS + "file.write('earlier\\n'); file.flush()\nwhere_it_hangs()"
    with Ranks(tmp_path, [_python(code)]) as ranks:
        ranks.ready()
        (_, block) = ranks.report()
        assert " in where_it_hangs" in block
        assert "earlier" not in block


def test_very_long_stacks_are_shown_from_the_end(tmp_path: Path) -> None:
    code = _OURS + (
        "def deep(n): deep(n - 1) if n else where_it_hangs()\n"
        "sys.setrecursionlimit(5000)\n"
        "for _ in range(20):\n"
        "    threading.Thread(target=deep, args=[99], daemon=True).start()\n"
        "where_it_hangs()"
    )
    with Ranks(tmp_path, [_python(code)]) as ranks:
        ranks.ready()
        (_, block) = ranks.report()
        assert 10_000 < len(block) < 20_000
        assert block.endswith("in <module>")


def test_the_stacks_of_what_a_wrapper_runs_are_shown(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_OURS + "where_it_hangs()")
    command = ["/bin/sh", "-c", f'"{sys.executable}" {script} "$0"; true']
    with Ranks(tmp_path, [command]) as ranks:
        ranks.ready()
        (_, block) = ranks.report()
        assert "(/bin/sh -c " in block
        assert "in where_it_hangs" in block


def test_a_stopped_rank_is_said_to_be_stopped_and_is_not_asked(tmp_path: Path) -> None:
    with Ranks(tmp_path, [_python(_OURS + "where_it_hangs()")]) as ranks:
        ranks.ready()
        os.kill(ranks.processes[0].pid, signal.SIGSTOP)
        (_, block) = ranks.report()
        assert " is stopped" in block
        assert "stacks" not in block.rpartition(")")[2]
        assert "\n" not in block
        os.kill(ranks.processes[0].pid, signal.SIGCONT)
        assert (Path(ranks.plan.ranks[0].folder) / STACKS_NAME).read_text() == ""


def test_a_program_with_another_use_for_the_signal_is_left_alone(tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
signal.signal({int(STACK_SIGNAL)}, lambda *ignored: os._exit(9))
print("ready", flush=True)
sys.stdin.read()
"""
    with Ranks(tmp_path, [_python(code)]) as ranks:
        ranks.ready()
        assert len(ranks.report()) == 2
        ranks.processes[0].stdin.close()
        assert ranks.processes[0].wait(PATIENCE) == 0


def test_a_rank_that_no_longer_catches_the_signal_is_not_ended_by_it(tmp_path: Path) -> None:
    code = _OURS + f"faulthandler.unregister({int(STACK_SIGNAL)})\nwhere_it_hangs()"
    with Ranks(tmp_path, [_python(code)]) as ranks:
        ranks.ready()
        assert len(ranks.report()) == 2
        ranks.processes[0].stdin.close()
        assert ranks.processes[0].wait(PATIENCE) == 0


def test_a_rank_that_cannot_answer_is_not_waited_for_long(tmp_path: Path) -> None:
    code = _OURS + f"import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [{int(STACK_SIGNAL)}])"
    with Ranks(tmp_path, [_python(code + "\nwhere_it_hangs()")]) as ranks:
        ranks.ready()
        (_, block) = ranks.report()
        assert block.endswith(f"Process {ranks.processes[0].pid} wrote no stacks within 2 s.")


def test_a_command_with_odd_characters_stays_one_short_line(tmp_path: Path) -> None:
    code = "import sys\nsys.stdin.read()  # \x1b[2J " + "long " * 100
    with Ranks(tmp_path, [_python(code)]) as ranks:
        (_, block) = ranks.report()
        assert "\n" not in block
        assert "\x1b" not in block
        assert len(block) < 400


# HCCL's own limits


def _on_devices(planned: Plan, **variables: str) -> Plan:
    own = {"RANK_TABLE_FILE": "/table.json", **variables}
    for rank in planned.ranks:
        rank.environment = {**rank.environment, **own}
    return planned._replace(backend=backend_class("npu"))


def _limits(folder: Path, seconds: float, **variables: str) -> List[str]:
    with Ranks(folder, [_python(_HANG)], seconds=0.5) as ranks:
        planned = _on_devices(ranks.plan, **variables)
        ranks.watch = watch_over(planned, seconds)
        ranks.report()
        return list(ranks.sentences[2:])


def test_a_time_below_the_limits_of_hccl_says_them(tmp_path: Path) -> None:
    assert _limits(tmp_path, 0.5) == [
        "HCCL itself gives up finding the other ranks only after 140 s (HCCL_CONNECT_TIMEOUT and "
        "20 s more).",
        "HCCL itself gives up a collective only after 1836 s (HCCL_EXEC_TIMEOUT, or the script's "
        "hccl_timeout).",
    ]


def test_limits_that_are_set_count_and_the_910a_rounds_them(tmp_path: Path) -> None:
    link, wait = _limits(tmp_path, 0.5, HCCL_CONNECT_TIMEOUT="600", HCCL_EXEC_TIMEOUT="200")
    assert "after 620 s" in link
    assert "after 200 s (HCCL_EXEC_TIMEOUT, or the script's hccl_timeout; on a 910A 136 s)" in wait
    assert _limits(tmp_path / "never", 0.5, HCCL_EXEC_TIMEOUT="0")[1] == (
        "HCCL itself never gives up a collective (HCCL_EXEC_TIMEOUT=0)."
    )


def test_a_time_shorter_than_a_slow_start_is_noted_before_it(bench: Bench) -> None:
    def notes(seconds: float, **asked: Any) -> List[str]:
        table = None if asked.get("processes") == 1 or not asked.get("backend") else bench.table
        made = bench.plan(
            stall_timeout=seconds, rank_table=table and str(table), **{"processes": 2, **asked}
        )
        return [note for note in made.notes if "stall_timeout" in note]

    assert notes(1) == []
    bench.nodes(range(2))
    (note,) = notes(139.5, backend="npu")
    assert "stall_timeout=139.5 s is shorter than the 140 s that HCCL gives ranks" in note
    assert notes(140, backend="npu") == []
    # HCCL refuses to start with what is out of range.
    for given, limit in (("600", 620), ("30", 140), ("9000", 140), ("soon", 140)):
        bench.environ["HCCL_CONNECT_TIMEOUT"] = given
        (note,) = notes(1, backend="npu")
        assert f"the {limit} s that HCCL" in note
    assert notes(1, backend="npu", processes=1) == []

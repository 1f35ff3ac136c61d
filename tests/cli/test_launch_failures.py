"""What a person sees of a launch that goes wrong: on a terminal of 80 columns, and in the logs."""

import json
import os
import re
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from ascend_session import LaunchConfig, launch
from tests.cli.terminal import Terminal

_TRAINING = """
import os, signal, sys
import numpy as np
import tensorflow as tf
import ascend_session as asc
from ascend_session import hccl

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def load_batch(step, rank):
    if step == 3 and rank == int(sys.argv[1]):
        {fault}
    return np.full([4], float(step))


with asc.ascend_system() as system:
    batch = tf1.placeholder(tf.float32, [4])
    total = hccl.allreduce(batch, "sum")
    with system.session() as session:
        for step in range(8):
            session.run(total, feed_dict={{batch: load_batch(step, system.rank)}})
"""
_RAISE = 'raise ValueError("batch 3 is empty")'


@pytest.fixture
def fail(program, tmp_path):
    """Launches a script on the stub to its end; its output goes to pipes."""

    def fail(script, *words, ranks=1, python=sys.executable):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(script))
        logs = ("--log-dir", str(tmp_path / "logs"), "--job-id", "job")
        job = ("-n", str(ranks), "--backend", "stub", "--python", python, *logs)
        called = program("launch", *job, str(path), *words)
        assert called.code != 0
        return called

    return fail


def log(tmp_path, rank, name="stderr.log"):
    return tmp_path / "logs" / "job" / "attempt_1" / f"rank_{rank}" / name


@pytest.fixture
def show(start, tmp_path):
    """Starts a launch on the stub, and shows it on a terminal of 80 columns."""

    def show(*words):
        terminal = Terminal(80)
        process = start(
            *("launch", "--backend", "stub", "--log-dir", str(tmp_path / "logs")),
            *("--job-id", "job", *words),
            stdout=terminal.theirs,
            stderr=terminal.theirs,
            TERM="dumb",
        )
        os.close(terminal.theirs)
        return terminal, process

    return show


def test_a_raise_in_one_of_eight_ranks_is_one_block_of_few_lines(show, tmp_path, forking_python):
    script = tmp_path / "train.py"
    script.write_text(_TRAINING.format(fault=_RAISE))
    terminal, process = show("-n", "8", "--python", forking_python, str(script), "3")
    while terminal.read():
        pass
    terminal.close()
    assert process.wait() == 1
    lines = terminal.shown.replace("\r\n", "\n").splitlines()
    assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 60
    for rank in {*range(8)} - {3}:
        stopped = f"rank {rank}: stopped, because rank 3 failed"
        assert lines.count(f"[{rank}] {stopped}") == 1
        traceback = log(tmp_path, rank).read_text().rstrip()
        assert "Traceback (most recent call last)" in traceback
        assert traceback.endswith(f"\n{stopped}")
    assert not any("Traceback" in line for line in lines)
    block = lines.index(f"Rank 3 failed in {script}:14 (load_batch):")
    assert lines[block + 1 : block + 5] == [
        f"    {_RAISE}",
        "  called from",
        f"    {script}:23 (<module>)",
        "  ValueError: batch 3 is empty",
    ]
    assert "  Stopped    ranks 0-2,4-7, because rank 3 failed" in lines
    assert f"  Rank 3     {log(tmp_path, 3)}" in lines
    assert "ValueError: batch 3 is empty" in log(tmp_path, 3).read_text()


def test_ranks_that_lose_a_crashed_one_say_so_in_a_line_at_most(fail, tmp_path, forking_python):
    script = _TRAINING.format(fault="os.kill(os.getpid(), signal.SIGSEGV)")
    called = fail(script, "1", ranks=2, python=forking_python)
    assert called.code == 128 + signal.SIGSEGV
    # A rank that is told to end before it can hear of the crash says nothing.
    assert called.out in ("[0] rank 0: stopped, because rank 1 failed\n", "")
    assert f"Rank 1 crashed in {tmp_path}/train.py:14 (load_batch):" in called.err
    assert "rank 0, because rank 1 failed" in called.err


_ALL_AT_ONCE = """
    import os, time
    rank, size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    here = os.path.join(os.path.dirname(__file__), "here_{}").format
    open(here(rank), "w").close()
    while not all(os.path.exists(here(other)) for other in range(size)):
        time.sleep(0.001)
    raise ValueError(f"of {rank}")
"""


def test_of_ranks_that_fail_at_once_the_one_that_is_named_at_once_is_blamed(fail, tmp_path):
    called = fail(_ALL_AT_ONCE, ranks=4)
    (reported,) = re.findall(r"Rank (\d) has .*The others get SIGTERM now", called.err) or ["none"]
    (blamed,) = re.findall(r"the job failed\. Rank (\d) raised ValueError", called.err)
    assert reported in (blamed, "none")  # nobody is named where all have ended by themselves


_TRIALS = """
    import os, sys
    from ascend_session.backends.stub_job import open_job
    from ascend_session.cluster.job import Job

    job = Job.detect(os.environ)
    for trial in range(2):
        opened = open_job(job, {}, os.environ)
        for name in ("stdout", "stderr"):
            print("trial", trial, name, file=getattr(sys, name), flush=True)
        if (trial, job.rank) == (0, 0):
            opened.process_group.fail("bad parameters", ValueError("bad parameters"))
        opened.close()
"""


def test_ranks_that_go_on_after_a_failure_are_shown_again(program, tmp_path):
    script = tmp_path / "trials.py"
    script.write_text(textwrap.dedent(_TRIALS))
    logs = ("--log-dir", str(tmp_path / "logs"), "--job-id", "job")
    called = program("launch", "-n", "2", "--backend", "stub", *logs, str(script))
    assert called.code == 0, called.err
    assert {f"[{rank}] trial 1 {name}" for rank in range(2) for name in ("stdout", "stderr")} <= {
        *called.out.splitlines(),
        *called.err.splitlines(),
    }
    assert not any(path.name == "error.json" for path in log(tmp_path, 0).parent.iterdir())


def test_tensorflows_frames_come_after_the_users_line(fail, tmp_path):
    script = _TRAINING.format(fault="return np.zeros([5])")
    called = fail(script, "0")
    begin = called.err.index(f"Rank 0 failed in {tmp_path}/train.py:23 (<module>):")
    block = called.err[begin : called.err.index("\n\n", begin)]
    assert block.index("session.run(total") < block.index("which calls")
    assert "python/client/session.py:" in block.partition("which calls")[2]
    assert "site-packages" not in block
    assert "ValueError: Cannot feed value of shape (5,)" in block


_LATE = """
    import os, signal, sys, time
    rank = os.environ["RANK_ID"]

    def end(number, frame):
        time.sleep(1)  # the guardian asks to end without waiting until the launcher knows why
        print("late", flush=True)
        print("late error", file=sys.stderr, flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    if rank == "0":
        open(sys.argv[1], "w").close()
        signal.pause()
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print("before", file=sys.stderr, flush=True)
    {end}
"""


@pytest.mark.parametrize("end", ['raise ValueError("no data")', "sys.exit(3)"])
def test_once_a_rank_has_failed_the_others_write_to_their_logs_only(fail, tmp_path, end):
    called = fail(_LATE.format(end=end), str(tmp_path / "ready"), ranks=2)
    assert called.out == "[1] before\n"
    assert log(tmp_path, 0, "stdout.log").read_text() == "late\n"
    assert log(tmp_path, 0).read_text() == "late error\n"


def test_the_function_launch_shows_the_traceback_that_no_summary_repeats(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise ValueError('no data')")
    with open(str(tmp_path / "screen"), "wb") as screen:
        config = LaunchConfig(
            script=str(script), processes=1, backend="stub", log_dir=str(tmp_path / "logs")
        )
        assert launch(config, output=screen.fileno()).code == 1
    assert "[0] ValueError: no data\n" in (tmp_path / "screen").read_text()


@pytest.mark.parametrize("how", ["SIGSEGV", "SIGABRT", "in a thread"])
def test_a_crash_is_shown_by_the_users_line_and_the_file_of_stacks(fail, tmp_path, how):
    line = {
        "SIGSEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
        "SIGABRT": "os.abort()",
        "in a thread": "ctypes.string_at(0)",
    }[how]
    script = f"""
        import ctypes, os, signal, threading, time
        threading.Thread(target=time.sleep, args=[60], daemon=True).start()

        def crash():
            {line}

        if {how!r} == "in a thread":
            thread = threading.Thread(target=crash)
            thread.start()
            thread.join()
        crash()
    """
    called = fail(script)
    number = signal.SIGABRT if how == "SIGABRT" else signal.SIGSEGV
    assert called.code == 128 + number
    assert f"\nRank 0 crashed in {tmp_path}/train.py:6 (crash):\n    {line}\n" in called.err
    assert "sleep" not in called.err
    assert "Read what rank" not in called.err
    stacks = log(tmp_path, 0, "stacks.log")
    assert str(stacks) in called.err
    assert "Thread" in stacks.read_text()


@pytest.mark.parametrize("end", ["sys.exit(137)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_program_that_ends_with_137_and_sigkill_get_the_same_advice(fail, end):
    called = fail(f"import os, signal, sys; {end}")
    assert called.code == 137
    assert "SIGKILL" in called.err
    assert "'dmesg' or 'journalctl -k' names the process that the kernel killed" in called.err


def test_what_a_rank_wrote_before_its_traceback_is_shown_and_the_traceback_once(fail):
    called = fail("import sys; print('loading', file=sys.stderr); raise ValueError('x')")
    assert called.out == "[0] loading\n"
    assert called.err.count("ValueError: x\n") == 1


def test_a_recursion_is_listed_as_one_line(fail, tmp_path):
    called = fail("def again(n):\n    return again(n + 1)\n\nagain(0)")
    assert f"    {tmp_path}/train.py:2 (again), 99 times\n" in called.err
    assert "RecursionError: maximum recursion depth exceeded" in called.err


@pytest.fixture
def interrupted(show, tmp_path):
    """Launches a script in two ranks, and sends SIGINT when both have written a line."""

    def interrupted(script):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(script))
        terminal, process = show("-n", "2", str(path))
        terminal.until("[0] begun")
        terminal.until("[1] begun")
        process.send_signal(signal.SIGINT)
        while terminal.read():
            pass
        terminal.close()
        assert process.wait() == 128 + signal.SIGINT
        return terminal.shown

    return interrupted


def test_an_interrupt_is_no_failure_and_shows_no_traceback(interrupted, tmp_path):
    shown = interrupted("import signal; print('begun', flush=True); signal.pause()")
    assert "the job was interrupted" in shown
    assert "failed" not in shown
    assert "KeyboardInterrupt" not in shown
    for rank in range(2):
        assert "KeyboardInterrupt" in log(tmp_path, rank).read_text()


def test_what_a_rank_says_of_an_interrupt_itself_is_shown(interrupted):
    shown = interrupted(
        """
        import signal
        try:
            print("begun", flush=True)
            signal.pause()
        except KeyboardInterrupt:
            print("saved", flush=True)
            raise
        """
    )
    assert "[0] saved" in shown
    assert "[1] saved" in shown
    assert "Traceback" not in shown


def test_an_interrupt_that_a_script_raises_itself_is_a_failure(fail, tmp_path):
    called = fail("raise KeyboardInterrupt")
    assert "the job failed. Rank 0 raised KeyboardInterrupt." in called.err
    assert f"Rank 0 failed in {tmp_path}/train.py:1 (<module>):" in called.err


_PARSER = """
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs")
    parser.parse_args()
"""


@pytest.mark.parametrize(
    ("rank_ids", "named"),
    [
        ("0 1 ²", "ranks 0-1, ², which it started; the job continues until they exit"),
        ("3", "rank 3, which it started; the job continues until it exits"),
    ],
)
def test_ranks_that_a_script_does_not_wait_for_are_named(program, tmp_path, rank_ids, named):
    script = tmp_path / "train.sh"
    script.write_text(
        f"export RANK_SIZE=4\nfor RANK_ID in {rank_ids}; do\n"
        f"    export RANK_ID; {sys.executable} -c 'import time; time.sleep(3)' &\ndone\n"
    )
    logs = ("--log-dir", str(tmp_path / "logs"))
    called = program(
        *("launch", "-n", "1", "--backend", "stub", *logs, "--no-python", "bash", str(script)),
        LANG="C.UTF-8",
    )
    assert called.code == 0, called.err
    assert f"without waiting for {named}. Write `wait` at its end." in called.err


def test_options_of_the_command_behind_the_script_are_explained(fail, tmp_path):
    called = fail(_PARSER, "--epochs", "3", "--devices", "0-1")
    assert called.code == 2
    advice = f"--devices comes after {tmp_path}/train.py, so it was passed on to it."
    assert advice in called.err
    assert f"ascend-session launch --devices 0-1 {tmp_path}/train.py\n" in called.err


@pytest.mark.parametrize("words", [("--lr", "3"), ("-n", "2", "--lr"), ()])
def test_an_unknown_option_of_the_scripts_own_is_not(fail, words):
    script = _PARSER + "    parser.error('no such file: 2')\n" if not words else _PARSER
    called = fail(script.replace("--epochs", "-n"), *words)
    assert called.code == 2
    assert "comes after" not in called.err


def test_a_launch_begins_with_its_ranks_its_backend_and_its_logs(program, tmp_path):
    script = tmp_path / "empty.py"
    script.write_text("")
    words = ("--independent", "--log-dir", str(tmp_path), str(script))
    called = program("launch", *words, ASCEND_SESSION_BACKEND="stub")
    first, second, last = called.err.splitlines()
    because = "8 ranks, backend stub: ASCEND_SESSION_BACKEND=stub is set; logs in "
    assert first.startswith(f"ascend-session: {because}{tmp_path}/")
    assert Path(first.partition("logs in ")[2], "rank_7", "stdout.log").exists()
    assert second == (
        "ascend-session: No -n before the script and no device to count: starting "
        "8 ranks, as many as a server with Ascend processors usually has."
    )
    assert last.startswith("ascend-session: all 8 ranks succeeded")
    again = program("launch", "-n", "2", *words, ASCEND_SESSION_BACKEND="stub")
    assert "Without -n" not in again.err
    fewer = program(
        *("launch", *words), ASCEND_SESSION_BACKEND="stub", ASCEND_SESSION_STUB_DEVICES="3"
    )
    assert "3 ranks, as many as ASCEND_SESSION_STUB_DEVICES says." in fewer.err


def test_the_result_in_json_has_the_place_and_who_follows(program, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise ValueError('x')")
    words = ("--json", "-n", "1", "--backend", "stub", "--log-dir", str(tmp_path / "logs"))
    called = program("launch", *words, str(script))
    attempt = json.loads(called.out)["attempts"][0]
    assert attempt["cause"]["place"][0] == f"Rank 0 failed in {script}:1 (<module>):"
    assert attempt["cause"]["tail"][-1] == "ValueError: x"
    error = attempt["ranks"][0]["error"]
    assert error["frames"] == [[str(script), 1, "<module>"]]
    assert error["ends_program"] is True
    assert error["failed_rank"] is None

"""A function runs as the ranks of a job: what it returns, raises and never returns."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ascend_session.errors import CollectiveError, ConfigError, RanksTimeoutError
from ascend_session.testing import run_ranks


class _OwnError(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.second = second


def rank_of(prefix, suffix=""):
    return f"{prefix}{os.environ['RANK_ID']} of {os.environ['RANK_SIZE']}{suffix}"


def sum_over_ranks(value):
    import numpy as np
    import tensorflow.compat.v1 as tf

    from ascend_session import ascend_session, current_system, hccl

    tf.disable_eager_execution()
    with ascend_session() as session:
        return float(session.run(hccl.allreduce(np.float32(value + current_system().rank), "sum")))


def raise_in(rank):
    if int(os.environ["RANK_ID"]) == rank:
        raise KeyError("no data")
    time.sleep(600)


def disagree():
    import tensorflow.compat.v1 as tf

    from ascend_session import ascend_session, current_system, hccl

    tf.disable_eager_execution()
    with ascend_session() as session:
        if current_system().rank:
            session.run(hccl.allreduce([1.0], "sum"))
        else:
            session.run(hccl.broadcast([[1.0]], 0))


def raise_what_cannot_be_pickled():
    raise _OwnError("the data", "ends")


def return_what_cannot_be_pickled():
    return threading.Lock()


def exit_in(rank, how):
    if int(os.environ["RANK_ID"]) == rank:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        (sys.exit if how == "exit" else os._exit)(0 if how == "early" else 3)


def wait_for_ever():
    while True:
        time.sleep(600)


def test_each_rank_is_called_with_the_arguments_and_returns_a_value():
    assert run_ranks(rank_of, 3, "rank ", suffix=".") == [f"rank {n} of 3." for n in range(3)]


def test_the_ranks_are_one_job_on_the_stub(tf):
    assert run_ranks(sum_over_ranks, 2, 3.0) == [7.0, 7.0]


def test_the_job_around_the_test_does_not_matter(monkeypatch):
    monkeypatch.setenv("RANK_ID", "5")
    monkeypatch.setenv("RANK_SIZE", "8")
    monkeypatch.setenv("SLURM_NNODES", "4")
    monkeypatch.setenv("ASCEND_SESSION_BACKEND", "npu")
    assert run_ranks(rank_of, 1, "") == ["0 of 1"]


def test_what_a_rank_raises_is_raised_with_the_traceback_there():
    with pytest.raises(KeyError, match="no data") as caught:
        run_ranks(raise_in, 2, 1)
    assert "rank 1 of raise_in" in str(caught.value.__cause__)
    assert 'raise KeyError("no data")' in str(caught.value.__cause__)


def test_of_ranks_that_wait_for_each_other_the_sentence_comes_first_and_once(tf):
    with pytest.raises(CollectiveError, match=r"rank 0 runs .*; rank 1 runs ") as caught:
        run_ranks(disagree, 2)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("The ranks disagree about")
    assert sum("disagree about" in line for line in lines) == 1
    assert any("(disagree)" in line for line in lines)
    assert len(lines) < 15


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raise_what_cannot_be_pickled, r"_OwnError: the data[^$]*\(raise_what_cannot_be_pickled\)"),
        (return_what_cannot_be_pickled, "cannot pickle|can't pickle"),
    ],
)
def test_what_cannot_be_pickled_is_told_as_text(function, said):
    with pytest.raises((CollectiveError, TypeError), match=said):
        run_ranks(function, 1)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("killed", "Rank 1 .*SIGKILL"),
        ("exit", "Rank 1 .*3"),
        ("abort", "Rank 1 .*3"),
        ("early", "Rank 1 exited without a result of exit_in"),
    ],
)
def test_a_rank_without_a_result_is_named(how, said):
    with pytest.raises(CollectiveError, match=said):
        run_ranks(exit_in, 2, 1, how)


def test_ranks_that_do_not_return_in_time_say_where_they_are():
    with pytest.raises(RanksTimeoutError) as caught:
        run_ranks(wait_for_ever, 2, timeout=8)
    text = str(caught.value)
    assert "did not all return within 8 s" in text
    assert text.count("time.sleep(600)") == 2
    assert "runpy" not in text


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((lambda: 1, 2), {}, "top level of a module"),
        (("train", 2), {}, "takes a function, not 'train'"),
        ((rank_of, 0), {}, "1 rank or more, not 0"),
        ((rank_of, True), {}, "1 rank or more, not True"),
        ((rank_of, 2), {"timeout": 0}, "timeout=0 is not a number of seconds above 0"),
        ((rank_of, 2, threading.Lock()), {}, "cannot be sent to ranks"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_started(arguments, options, said):
    with pytest.raises(ConfigError, match=said):
        run_ranks(*arguments, **options)


def test_a_function_of_the_main_script_is_found(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os\n"
        "from ascend_session.testing import run_ranks\n"
        "class Own:\n"
        "    rank = os.environ.get('RANK_ID')\n"
        "def make():\n"
        "    own = Own()\n"
        "    own.rank = int(os.environ['RANK_ID'])\n"
        "    return own\n"
        "if __name__ == '__main__':\n"
        "    print([own.rank for own in run_ranks(make, 2)])\n"
    )
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, cwd=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"[0, 1]\n")


def test_a_caller_that_is_interrupted_leaves_no_rank(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, pathlib, time\n"
        "from ascend_session.testing import run_ranks\n"
        "def wait(folder):\n"
        "    pathlib.Path(folder, os.environ['RANK_ID']).write_text(str(os.getpid()))\n"
        "    os.mkfifo(folder + '/fifo' + os.environ['RANK_ID'])\n"
        "    os.open(folder + '/go', os.O_WRONLY)\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    os.mkfifo('go')\n"
        "    run_ranks(wait, 1, os.getcwd())\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], cwd=str(tmp_path), stderr=subprocess.PIPE
    ) as caller:
        while not (tmp_path / "go").exists():
            assert caller.poll() is None
            time.sleep(0.01)
        with open(str(tmp_path / "go"), "rb"):  # opened when the rank is there
            caller.send_signal(signal.SIGINT)
            _, said = caller.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    assert not os.path.exists(f"/proc/{(tmp_path / '0').read_text()}")

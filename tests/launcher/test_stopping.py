"""Who gets which signal when a job is stopped: ranks before their workers, and each of them one."""

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

import psutil
import pytest

from tests.launcher.supervised import PATIENCE, alive
from tests.launcher.test_signals import _RANK, Launcher, await_state
from tests.waiting import wait_until

_TERM, _INT = signal.SIGTERM, signal.SIGINT

Start = Callable[..., Launcher]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `launch --no-python` with such words, behind options; what it starts ends."""
    started: List[Launcher] = []

    def begin(ranks: int, *words: str) -> Launcher:
        started.append(Launcher(tmp_path, ranks, *words))
        return started[-1]

    yield begin
    for launcher in started:
        launcher.close()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Writes a program of Python that can talk to the test; its path."""

    def write(code: str, name: str = "train.py") -> str:
        path = tmp_path / name
        path.write_text(_RANK + code)
        return str(path)

    return write


def tree(launcher: Launcher) -> List[int]:
    """The launcher and every process below it."""
    process = psutil.Process(launcher.process.pid)
    return [process.pid, *(child.pid for child in process.children(recursive=True))]


def send(pids: List[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def stop(launcher: Launcher, number: int = _TERM) -> str:
    launcher.process.send_signal(number)
    return finish(launcher)


def finish(launcher: Launcher) -> str:
    return str(launcher.process.communicate(timeout=PATIENCE)[0])


# Work that needs a worker, three times more after the signal.
_TRAIN = """
def save_soon(number, frame): asked.append(number)
asked = []
def train(work):
    signal.signal(signal.SIGTERM, save_soon)
    signal.signal(signal.SIGINT, save_soon)
    assert work(1) == 2
    tell("ready")
    while not asked: work(1)
    for _ in range(3): assert work(1) == 2; time.sleep(0.1)
    tell("saved")
    sys.exit(0)
def add(number): return number + 1
def quiet():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
"""
_ECHO = "import sys\nfor line in sys.stdin: print(int(line) + 1, flush=True)"
_WORKERS = {
    "spawned pool": """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2, quiet) as pool:
        train(lambda number: pool.map(add, [number])[0])
""",
    "forked pool": """
import multiprocessing
pool = multiprocessing.get_context("fork").Pool(2, quiet)
train(lambda number: pool.apply(add, (number,)))
""",
    "executor": """
import concurrent.futures
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        train(lambda number: pool.submit(add, number).result())
""",
    "process": """
import multiprocessing
def serve(pipe):
    quiet()
    while True: pipe.send(pipe.recv() + 1)
here, there = multiprocessing.Pipe()
multiprocessing.Process(target=serve, args=(there,), daemon=True).start()
def work(number):
    here.send(number)
    return here.recv()
train(work)
""",
    "program": f"""
import subprocess
pipe = subprocess.PIPE
worker = subprocess.Popen([sys.executable, "-u", "-c", {_ECHO!r}], stdin=pipe, stdout=pipe)
def work(number):
    worker.stdin.write(b"%d\\n" % number); worker.stdin.flush()
    return int(worker.stdout.readline())
train(work)
""",
    "program in a session of its own": f"""
import subprocess
pipe = subprocess.PIPE
worker = subprocess.Popen(
    [sys.executable, "-u", "-c", {_ECHO!r}], stdin=pipe, stdout=pipe, start_new_session=True
)
def work(number):
    worker.stdin.write(b"%d\\n" % number); worker.stdin.flush()
    return int(worker.stdout.readline())
train(work)
""",
}


@pytest.mark.parametrize("number", [_TERM, _INT])
@pytest.mark.parametrize("kind", _WORKERS)
def test_a_rank_that_saves_has_its_workers_until_it_exits(
    start: Start, script: Callable[[str], str], kind: str, number: int
) -> None:
    launcher = start(2, sys.executable, script(_TRAIN + _WORKERS[kind]))
    assert launcher.gate.lines(2) == [["0", "ready"], ["1", "ready"]]
    processes = tree(launcher)
    said = stop(launcher, number)
    assert launcher.gate.lines(2) == [["0", "saved"], ["1", "saved"]]
    assert launcher.process.returncode == 128 + number
    assert "When stopped" not in said
    assert alive(processes) == []


_SHELLS = {
    "plain": "{python} {script}; touch second",
    "pipe": "{python} {script} | tee log; touch second",
    "subshell": "({python} {script}; touch second) 2>&1 | cat; touch second",
    "in the background": "{python} {script} & wait; touch second",
    "shell below a shell": 'bash -c "{python} {script}; touch second"; touch second',
}


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("kind", _SHELLS)
def test_below_a_shell_the_program_saves_and_no_other_command_follows(
    tmp_path: Path, start: Start, script: Callable[[str], str], kind: str, shell: str
) -> None:
    program = script(_TRAIN + _WORKERS["forked pool"])
    words = _SHELLS[kind].format(python=sys.executable, script=program)
    launcher = start(1, shell, "-c", words)
    launcher.gate.lines(1)
    processes = tree(launcher)
    stop(launcher)
    assert launcher.gate.lines(1) == [["0", "saved"]]
    assert alive(processes) == []
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("kind", ["plain", "pipe", "shell below a shell"])
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_ctrl_c_comes_to_the_program_below_a_shell(
    start: Start, script: Callable[[str], str], kind: str, shell: str
) -> None:
    program = script(_TRAIN + _WORKERS["forked pool"])
    words = _SHELLS[kind].format(python=sys.executable, script=program)
    launcher = start(1, shell, "-c", words)
    launcher.gate.lines(1)
    began = time.monotonic()
    stop(launcher, _INT)
    assert launcher.gate.lines(1) == [["0", "saved"]]
    assert time.monotonic() - began < 7  # not only when the grace is almost over


def test_a_trap_runs_when_the_program_that_its_shell_waits_for_has_saved(
    tmp_path: Path, start: Start, script: Callable[[str], str]
) -> None:
    program = script(_TRAIN + _WORKERS["forked pool"])
    trap = f"trap 'cat {tmp_path}/first > {tmp_path}/trapped; exit 3' TERM"
    launcher = start(1, "bash", "-c", f"{trap}; {sys.executable} {program}; touch first")
    (tmp_path / "first").write_text("before")
    launcher.gate.lines(1)
    began = time.monotonic()
    stop(launcher)
    assert launcher.gate.lines(1) == [["0", "saved"]]
    assert (tmp_path / "trapped").read_text() == "before"
    assert time.monotonic() - began < 7


def test_a_trap_that_passes_the_signal_on_is_the_only_one_to_do_so(
    start: Start, script: Callable[[str], str]
) -> None:
    program = script(
        "asked = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: asked.append(1))\n"
        "tell('ready')\n"
        "while not asked: time.sleep(0.01)\n"
        "time.sleep(0.5)  # in which another one would come\n"
        "tell('got', len(asked))\n"
    )
    words = f"trap 'kill -TERM $pid' TERM; {sys.executable} {program} & pid=$!; wait; wait"
    launcher = start(1, "bash", "-c", words)
    launcher.gate.lines(1)
    stop(launcher)
    assert launcher.gate.lines(1) == [["0", "got", "1"]]


@pytest.mark.parametrize(("grace", "least"), [(2.0, 0.4), (5.0, 2.4)])
def test_workers_of_a_rank_that_does_not_exit_get_the_signal_before_the_grace_is_over(
    start: Start, script: Callable[[str], str], grace: float, least: float
) -> None:
    program = script(
        "def told(number, frame): tell(who, time.monotonic()); asked.append(1)\n"
        "asked, who = [], 'rank'\n"
        "signal.signal(signal.SIGTERM, told)\n"
        "if not os.fork(): who = 'worker'\n"
        "tell('ready')\n"
        "while not asked or who == 'rank': time.sleep(0.02)\n"
    )
    launcher = start(1, "--grace", str(grace), sys.executable, program)
    launcher.gate.lines(2)
    said = stop(launcher)
    told = {who: float(at) for _, who, at in launcher.gate.lines(2)}
    assert least <= told["worker"] - told["rank"] <= grace
    assert f"Rank 0 had not exited after {grace:g} s and was killed." in said


# Its handler is there for one signal; another one would cut short what is to be written.
_FINISH = """
def end(number, frame): raise SystemExit(143)
signal.signal(signal.SIGTERM, end)
try:
    tell("ready")
    while True: time.sleep(0.05)
finally:
    time.sleep(0.4)
    print("written", flush=True)
    tell("results")
"""


def _order(pids: List[int], order: str) -> List[int]:
    if order == "from the ranks":
        return pids[::-1]
    if order != "from the launcher":
        random.Random(order).shuffle(pids)
    return pids


@pytest.mark.parametrize(
    "order", ["from the launcher", "from the ranks", *(f"order {number}" for number in range(3))]
)
@pytest.mark.parametrize("shell", [False, True])
def test_sigterm_to_every_process_is_one_for_each_rank(
    start: Start, script: Callable[[str], str], order: str, shell: bool
) -> None:
    words: Tuple[str, ...] = (sys.executable, script(_FINISH))
    if shell:
        words = ("bash", "-c", f"{' '.join(words)}; exit $?")
    launcher = start(4, *words)
    launcher.gate.lines(4)
    send(_order(tree(launcher), order), _TERM)
    said = finish(launcher)
    assert launcher.gate.lines(4) == [[str(rank), "results"] for rank in range(4)]
    assert launcher.process.returncode == 128 + _TERM
    assert "the job was stopped. The launcher was stopped by SIGTERM." in said
    assert "the job failed" not in said
    assert all(f"[{rank}] written" in said for rank in range(4))


def test_whoever_ends_processes_by_the_name_of_the_script_means_the_guardian_too(
    start: Start, script: Callable[[str], str]
) -> None:
    launcher = start(2, sys.executable, script(_FINISH))
    launcher.gate.lines(2)
    named = [pid for pid in tree(launcher) if "train.py" in " ".join(psutil.Process(pid).cmdline())]
    assert named == tree(launcher)
    send(named, _TERM)
    finish(launcher)
    assert launcher.gate.lines(2) == [["0", "results"], ["1", "results"]]


def test_a_signal_to_the_guardian_alone_stops_the_job(
    start: Start, script: Callable[[str], str]
) -> None:
    launcher = start(2, sys.executable, script(_FINISH))
    launcher.gate.lines(2)
    (guardian,) = psutil.Process(launcher.process.pid).children()
    guardian.terminate()
    finish(launcher)
    assert launcher.gate.lines(2) == [["0", "results"], ["1", "results"]]
    assert launcher.process.returncode == 128 + _TERM


def test_below_a_short_grace_a_rank_gets_one_signal(
    start: Start, script: Callable[[str], str]
) -> None:
    program = script(
        "got = []\nsignal.signal(signal.SIGTERM, lambda *_: got.append(1))\ntell('ready')\n"
        "while not got: time.sleep(0.02)\n"
        "time.sleep(1.2)\ntell(len(got))\n"
    )
    launcher = start(1, "--grace", "2", sys.executable, program)
    launcher.gate.lines(1)
    (guardian,) = psutil.Process(launcher.process.pid).children()
    guardian.terminate()
    finish(launcher)
    assert launcher.gate.lines(1) == [["0", "1"]]


def test_a_job_that_is_paused_can_save_when_its_launcher_is_killed(
    start: Start, script: Callable[[str], str]
) -> None:
    launcher = start(1, sys.executable, script(_TRAIN + _WORKERS["process"]))
    assert launcher.gate.lines(1) == [["0", "ready"]]
    _, *ranks = tree(launcher)[1:]
    launcher.process.send_signal(signal.SIGTSTP)
    await_state([launcher.process.pid, *ranks], psutil.STATUS_STOPPED)
    launcher.process.kill()
    assert launcher.gate.lines(1) == [["0", "saved"]]
    wait_until(lambda: not alive(ranks))


def test_sigterms_to_the_launcher_within_a_second_are_one_and_a_later_one_kills(
    start: Start, script: Callable[[str], str]
) -> None:
    program = script(
        "signal.signal(signal.SIGTERM, lambda *_: tell('asked'))\n"
        "tell('ready')\nwhile True: time.sleep(1)\n"
    )
    launcher = start(1, "--grace", "1000", sys.executable, program)
    launcher.gate.lines(1)
    launcher.process.send_signal(_TERM)
    launcher.process.send_signal(_TERM)
    assert launcher.gate.lines(1) == [["0", "asked"]]
    time.sleep(0.2)  # in which a second one would have killed the rank
    assert launcher.process.poll() is None
    time.sleep(1.0)
    said = stop(launcher)
    assert launcher.process.returncode == 128 + _TERM
    assert "Killing the processes that have not exited" in said
    assert "had not exited" not in said  # somebody has asked for that


def test_an_exception_of_a_rank_that_saves_is_reported(
    start: Start, script: Callable[[str], str]
) -> None:
    program = script(
        "def save(*ignored): raise OSError('cannot write results.npz')\n"
        "signal.signal(signal.SIGTERM, save)\ntell('ready')\nsignal.pause()\n"
    )
    launcher = start(2, sys.executable, program)
    launcher.gate.lines(2)
    said = stop(launcher)
    assert launcher.process.returncode == 128 + _TERM
    assert "the job failed while stopping. The launcher was stopped by SIGTERM. Rank 0" in said
    assert "ranks 0-1: raised OSError: cannot write results.npz." in said
    assert "rank_0/stderr.log" in said


# Ranks with a system of this package


_SYSTEM = """
from ascend_session import ascend_system
with ascend_system():
    try:
        tell("ready", os.getpid())
        while True: time.sleep(0.02)
    finally:
        tell("unwinding")
        wait()
        tell("results")
"""


def test_the_launchers_signal_does_not_count_as_a_second_one_but_a_later_one_from_outside_does(
    start: Start, script: Callable[[str], str]
) -> None:
    launcher = start(1, sys.executable, script(_SYSTEM))
    ((_, _, pid),) = launcher.gate.lines(1)
    rank = int(pid)
    os.kill(rank, _TERM)
    launcher.gate.lines(1)
    time.sleep(1.2)  # after that, it could be a second one
    launcher.process.send_signal(_TERM)
    time.sleep(0.6)  # until the guardian has sent its own
    assert alive([rank]) == [rank]
    os.kill(rank, _TERM)
    said = finish(launcher)
    assert "Second signal (SIGTERM): exiting at once." in said


def test_a_rank_that_got_sigterm_from_outside_first_saves_when_the_launcher_stops_it_later(
    start: Start, script: Callable[[str], str]
) -> None:
    launcher = start(1, sys.executable, script(_SYSTEM))
    ((_, _, pid),) = launcher.gate.lines(1)
    os.kill(int(pid), _TERM)
    launcher.gate.lines(1)
    time.sleep(1.2)
    launcher.process.send_signal(_TERM)
    time.sleep(0.6)  # until the guardian has sent its own
    launcher.end()
    assert launcher.gate.lines(1) == [["0", "results"]]


_FEED = """
import multiprocessing
import numpy as np
def make(number): time.sleep(0.02); return np.full([4, 2], 1.0, "f4")
def main():
    import tensorflow.compat.v1 as tf
    from ascend_session import ascend_system, training
    tf.disable_eager_execution()
    with ascend_system() as system:
        {batch}
        w = tf.get_variable("w", [2, 1])
        loss = tf.reduce_sum(tf.matmul(x, w) ** 2)
        optimizer = training.DistributedOptimizer(tf.train.AdamOptimizer(0.01))
        step = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
        hooks = [training.BroadcastGlobalVariablesHook(0), training.SaveOnPreemptionHook("saved")]
        with tf.train.MonitoredTrainingSession(
            system.target, config=system.session_config(), hooks=hooks
        ) as sess:
            for number in range(100000):
                sess.run(step, feed())
                if number == 3: tell("ready")
if __name__ == "__main__": main()
"""
_BATCHES = {
    "imap of a spawned pool": """
        x = tf.placeholder(tf.float32, [4, 2])
        batches = multiprocessing.get_context("spawn").Pool(2).imap(make, range(100000))
        feed = lambda: {x: next(batches)}
""",
    "from_generator over forked workers": """
        batches = multiprocessing.get_context("fork").Pool(2).imap(make, range(100000))
        data = tf.data.Dataset.from_generator(lambda: batches, tf.float32, [4, 2])
        x = tf.data.make_one_shot_iterator(data).get_next()
        feed = lambda: {}
""",
}


@pytest.mark.parametrize("kind", _BATCHES)
def test_the_preemption_checkpoint_of_a_training_with_data_workers_is_saved(
    tmp_path: Path, start: Start, script: Callable[[str], str], kind: str
) -> None:
    program = script(_FEED.replace("{batch}", _BATCHES[kind].strip()))
    launcher = start(2, "--grace", "30", sys.executable, program)
    launcher.gate.lines(2)
    said = stop(launcher)
    assert "SIGTERM: saved step" in said
    assert "the job was stopped." in said
    assert (tmp_path / "saved" / "checkpoint").exists()
    assert launcher.process.returncode == 128 + _TERM

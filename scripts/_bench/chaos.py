"""Kills processes of training jobs at random, and sees what becomes of each job.

Each launch trains the digits on eight ranks; a rank is a shell, and the Python that trains is its
child. At a random time a random one of launcher, guardian, ranks and children gets a random signal.
A job that does not end well is launched again, as a scheduler would. In the end nothing of it may
live, no file may be torn, shared memory is as it was, and the weights are those of a job that
nobody has touched, bit by bit.
"""

import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

import psutil

RANKS = 8
EPOCHS = 10  # of 11 steps each
VICTIMS = ("launcher", "guardian", "rank", "child")
SIGNALS = ("SIGKILL", "SIGSTOP+SIGKILL", "SIGTERM", "SIGSEGV")
STOPPED_S = 1.0  # from SIGSTOP to SIGKILL
GRACE_S = 10.0  # of the launch
RESTARTS = 2
ATTEMPT_FACTOR = 3.0  # how much longer than undisturbed an attempt may take on a busy machine
CLEANUP_S = GRACE_S + 10.0  # after the launcher's end, for what a killed launcher leaves behind
_MARK = "ASCEND_SESSION_CHAOS"
_TRAINER = Path(__file__).resolve().parent / "chaos_rank.py"


class Strike(NamedTuple):
    """Who gets which signal, and when.

    Attributes:
        victim: One of `VICTIMS`.
        rank: Which one, of ranks and children.
        signals: One of `SIGNALS`.
        share: When: up to a half while the job starts, above while it trains.
    """

    victim: str
    rank: int
    signals: str
    share: float


class Outcome(NamedTuple):
    """What became of a launch.

    Attributes:
        strike: What was done to it.
        struck_s: After how many seconds; None if there was no such process any more.
        code: What the first launch ended with.
        seconds: What it took from the signal to the end of the last process.
        attempts: How many attempts it made; None if it could not say.
        first_steps: Where each attempt began, with those of a launch by hand after it.
        faults: What is wrong, in sentences.
    """

    strike: Strike
    struck_s: Optional[float]
    code: int
    seconds: float
    attempts: Optional[int]
    first_steps: Sequence[Optional[int]]
    faults: Sequence[str]


def draw(seed: int, count: int) -> List[Strike]:
    """Draw so many strikes, the same for the same seed."""
    dice = random.Random(seed)
    return [
        Strike(dice.choice(VICTIMS), dice.randrange(RANKS), dice.choice(SIGNALS), dice.random())
        for _ in range(count)
    ]


class Job:
    """One job: its folder, and the processes that belong to it.

    Args:
        folder: Where it keeps everything; made here.
        data: The images, see ``chaos_rank.py``.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder = folder
        self._mark = uuid.uuid4().hex
        folder.mkdir()
        options = [
            *("--backend", "stub", "-n", str(RANKS), "--grace", str(GRACE_S), "--json"),
            *("--max-restarts", str(RESTARTS), "--log-dir", str(folder / "logs")),
            *("--stall-timeout", "120"),
        ]
        # A shell of two commands stays, so that the Python is its child.
        train = f'"$0" {_TRAINER} "$@"; exit $?'
        output = ["--output", str(folder), "--checkpoint-dir", str(folder / "checkpoints")]
        words = [str(data), *output, "--epochs", str(EPOCHS), "--batch", "16"]
        shell = ["--no-python", "/bin/sh", "-c", train, sys.executable, *words]
        self._command = [sys.executable, "-m", "ascend_session.cli", "launch", *options]
        self._program = shell
        self._launches = 0

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the launcher."""
        self._launches += 1
        threads = dict.fromkeys(
            ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"), "1"
        )
        environ = {**os.environ, **threads, _MARK: self._mark}
        with self._path("result.json").open("wb") as result, self._path("screen").open(
            "wb"
        ) as screen:
            return subprocess.Popen(
                [*self._command, "--events", str(self._path("events.jsonl")), *self._program],
                env=environ,
                cwd=str(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=result,
                stderr=screen,
                start_new_session=True,
            )

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._launches}.{name}"

    def result(self) -> Dict[str, Any]:
        """Give what the latest launch has printed; nothing if it came to that no more."""
        text = self._path("result.json").read_text()
        result: Dict[str, Any] = json.loads(text) if text else {}
        return result

    def living(self) -> List[psutil.Process]:
        """List the processes of the job, which it marks by a variable."""
        living = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_ours = process.environ().get(_MARK) == self._mark
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    living.append(process)
        return living

    def is_training(self) -> bool:
        """Tell whether the first checkpoint is there, which is made before the first step."""
        return (self.folder / "checkpoints" / "model.ckpt-0.index").exists()

    def weights(self) -> str:
        """Give what stands for the weights that the job came to; empty if it did not."""
        path = self.folder / "weights"
        return path.read_text() if path.exists() else ""


def find_victim(launcher: psutil.Process, strike: Strike) -> Optional[psutil.Process]:
    """Find the process that a strike is for; None if there is none at this moment."""
    with contextlib.suppress(psutil.Error, IndexError, ValueError):  # it is not there yet
        if strike.victim == "launcher":
            return launcher
        (guardian,) = launcher.children()
        if strike.victim == "guardian":
            return guardian
        rank = sorted(guardian.children(), key=lambda each: int(each.pid))[strike.rank]
        return rank if strike.victim == "rank" else rank.children()[0]
    return None


def hit(victim: psutil.Process, signals: str) -> None:
    """Send the signals, with some time between them."""
    for number, name in enumerate(signals.split("+")):
        if number:
            time.sleep(STOPPED_S)
        with contextlib.suppress(psutil.Error):
            victim.send_signal(getattr(signal, name))


class Chaos:
    """Launches, each with its strike, next to one that nobody touches.

    Args:
        folder: Where the jobs keep their files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "digits.npz"
        self.untouched_s = self._start_s = 0.0
        self._weights = ""

    def train_untouched(self) -> None:
        """Learn how long a job takes, and to which weights it comes.

        Raises:
            SystemExit: If it fails.
        """
        subprocess.run([sys.executable, str(_TRAINER), str(self._data)], check=True)
        job = Job(self._folder / "untouched", self._data)
        begin = time.monotonic()
        launcher = job.start()
        while launcher.poll() is None:
            if not self._start_s and job.is_training():
                self._start_s = time.monotonic() - begin
            time.sleep(0.01)
        code = launcher.wait()
        self.untouched_s = time.monotonic() - begin
        self._weights = job.weights()
        if code or not self._weights:
            raise SystemExit(f"A job that nobody touches ends with {code}: see {job.folder}")

    @property
    def limit_s(self) -> float:
        """Within how many seconds each launch has to end, all of its attempts included."""
        return (RESTARTS + 1) * (ATTEMPT_FACTOR * self.untouched_s + GRACE_S)

    def run(self, number: int, strike: Strike) -> Outcome:
        """Launch a job, strike, and look at what is left of it."""
        job = Job(self._folder / str(number), self._data)
        shared = _list_shared_memory()
        faults: List[str] = []
        begin = time.monotonic()
        launcher = job.start()
        strike_at = begin + 2 * strike.share * self._start_s if strike.share < 0.5 else None
        victim: Optional[psutil.Process] = None
        while victim is None and launcher.poll() is None:
            if strike_at is None and job.is_training():
                part = 2 * strike.share - 1
                strike_at = time.monotonic() + part * (self.untouched_s - self._start_s)
            if strike_at is not None and time.monotonic() >= strike_at:
                victim = find_victim(psutil.Process(launcher.pid), strike)
            time.sleep(0.01)
        struck_at = time.monotonic()
        if victim is not None:
            hit(victim, strike.signals)
        code, seconds = self._await_end(job, launcher, struck_at, faults)
        result = _read_result(job, faults)
        attempts = result.get("attempts", [])
        first_steps = [attempt["first_step"] for attempt in attempts]
        if code:  # as a scheduler does
            again = job.start()
            code_again, _ = self._await_end(job, again, time.monotonic(), faults)
            first_steps += [each["first_step"] for each in job.result().get("attempts", [])]
            if code_again:
                faults.append(f"launched again, it ended with {code_again}")
        if job.weights() != self._weights:
            faults.append(f"weights {job.weights() or 'missing'}, not {self._weights}")
        faults += find_torn_files(job.folder)
        faults += [f"{path} is left" for path in _list_shared_memory() - shared]
        if not faults:
            shutil.rmtree(str(job.folder))
        struck_s = None if victim is None else struck_at - begin
        return Outcome(strike, struck_s, code, seconds, len(attempts) or None, first_steps, faults)

    def _await_end(
        self, job: Job, launcher: "subprocess.Popen[bytes]", since: float, faults: List[str]
    ) -> Any:
        """Wait until no process of the job lives; give the launcher's code and the seconds."""
        try:
            code = launcher.wait(self.limit_s)
        except subprocess.TimeoutExpired:
            faults.append(f"it did not end within {self.limit_s:.0f} s")
            launcher.kill()
            code = launcher.wait()
        # A launcher that was killed cannot wait for the others, but its guardian ends them.
        until = time.monotonic() + (CLEANUP_S if code < 0 else 0)
        while job.living() and time.monotonic() < until:
            time.sleep(0.05)
        seconds = time.monotonic() - since
        for process in job.living():
            with contextlib.suppress(psutil.Error):
                faults.append(f"left alive: {process.pid} {' '.join(process.cmdline())[:100]}")
                process.kill()
        return code, seconds


def _list_shared_memory() -> Set[str]:
    """List the files of this product in shared memory; they have no name but for an instant."""
    return set(glob.glob("/dev/shm/ascend_session*"))


def _read_result(job: Job, faults: List[str]) -> Dict[str, Any]:
    try:
        return job.result()
    except ValueError as error:
        faults.append(f"what --json printed is torn: {error}")
        return {}


def find_torn_files(folder: Path) -> Iterator[str]:
    """Read everything that jobs keep; name what cannot be read to its end."""
    for path in folder.rglob("*"):
        if path.suffix == ".json":
            if path.stat().st_size or not path.name.endswith("result.json"):
                yield from _torn(path, lambda path=path: json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            lines = path.read_text().splitlines(keepends=True)
            for line in lines:
                yield from _torn(path, lambda line=line: json.loads(line))
            if lines and not lines[-1].endswith("\n"):
                yield f"{path}: the last line is cut"
        elif path.suffix == ".log" or path.name.endswith("screen"):
            yield from _torn(path, lambda path=path: path.read_text("utf-8"))
        elif path.suffix == ".index":
            yield from _torn(path, lambda path=path: _read_checkpoint(path))
    state = folder / "checkpoints" / "checkpoint"
    if state.exists():
        latest = re.match(r'model_checkpoint_path: "(.*)"\n', state.read_text())
        if latest is None or not Path(f"{latest[1]}.index").exists():
            yield f"{state} names no checkpoint that is there"


def _torn(path: Path, read: Any) -> Iterator[str]:
    try:
        read()
    except Exception as error:
        yield f"{path} is torn: {type(error).__name__}: {error}"


def _read_checkpoint(index: Path) -> None:
    import tensorflow.compat.v1 as tf

    reader = tf.train.load_checkpoint(str(index)[: -len(".index")])
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)  # which compares its checksum


def run_chaos(seed: int, launches: int) -> int:
    """Run them all and print a table; return how many launches had faults."""
    folder = Path(tempfile.mkdtemp(prefix="ascend-chaos-"))
    chaos = Chaos(folder)
    chaos.train_untouched()
    print(
        f"seed {seed}; {RANKS} ranks; a job that nobody touches takes {chaos.untouched_s:.1f} s, "
        f"a launch may take {chaos.limit_s:.0f} s.\n"
    )
    print("  #  signal           to          at   code  attempts  began at step    end after")
    bad = 0
    for number, strike in enumerate(draw(seed, launches), 1):
        outcome = chaos.run(number, strike)
        print(_line(number, outcome), flush=True)
        for fault in outcome.faults:
            print(f"     FAULT: {fault}", flush=True)
        bad += bool(outcome.faults)
    print(f"\n{launches - bad} of {launches} launches ended as they should.")
    if bad:
        print(f"What the others left: {folder}")
    else:
        shutil.rmtree(str(folder))
    return bad


def _line(number: int, outcome: Outcome) -> str:
    strike = outcome.strike
    victim = strike.victim + (f" {strike.rank}" if strike.victim in ("rank", "child") else "")
    steps = ", ".join("-" if step is None else str(step) for step in outcome.first_steps)
    attempts = "-" if outcome.attempts is None else str(outcome.attempts)
    struck = "never" if outcome.struck_s is None else f"{outcome.struck_s:.1f} s"
    return (
        f"{number:3}  {strike.signals:15}  {victim:9} {struck:>6}  {outcome.code:>4}  "
        f"{attempts:>8}  {steps:14} {outcome.seconds:>10.1f} s"
    )

"""Run one of the vendor's programs, such as ``npu-smi``, and parse what it prints.

``npu-smi`` can block on a faulty card, so every run has limits on time and size, and at its end the
program and its children are killed. The output may contain colour codes, carriage returns, NUL
bytes, lines of any length and numbers of any size: nothing here raises because of it.

Source: guides/facts/devices.md#failures-of-npu-smi.
"""

import contextlib
import math
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

TIME_LIMIT = 10.0
"""Seconds that one answer may take, unless the caller says otherwise."""

_Parsed = TypeVar("_Parsed")

_SIZE_LIMIT = 4 * 1024 * 1024  # bytes
_CHUNK_BYTES = 65536
_POLL_S = 0.25  # between two checks for the program's end or a signal
_KILL_S = 1.0  # for a killed program to disappear
_SLOW_S = 5.0  # after which the caller is told that the program is slow

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Longer than any line that the vendor's programs print, short enough for every pattern used here.
_LONGEST_LINE = 1000  # characters
_LONGEST_QUOTE = 120  # characters
_MOST_CPUS = 65536
_NUMBER = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
# \uff1a is the wide colon of translated output.
_PAIR = re.compile(r"\s*([^\s:\uff1a][^:\uff1a]*?)\s*[:\uff1a]\s*(.*)")

DEVICES_HELD = (
    "The driver says that a device is in use (dcmi error -8020): another container holds it, or "
    "this container lacks mounts. One held device hides all of them; stop the other container, "
    "or pass in other devices."
)
_FAILURES = (
    (r"ret is -8020\b", DEVICES_HELD),
    (
        r"ret is -8005\b",
        "The driver cannot be reached (dcmi error -8005): the devices are occupied, or the "
        "driver's folders are not mounted into this container.",
    ),
    (
        r"DrvMngGetConsoleLogLevel failed",
        "The driver's libraries are not visible (DrvMngGetConsoleLogLevel failed): mount "
        "/usr/local/Ascend/driver, or put its lib64 folders into LD_LIBRARY_PATH.",
    ),
    (
        r"dcmi \w+ initiali\w+ failed.*?ret is (-(?!8020\b|8005\b)[0-9]{1,6})",
        "The driver's management library could not be started (dcmi error {0}).",
    ),
    (
        r"error while loading shared libraries: ([^\s:]{1,100})",
        "The library {0} was not found; the driver's lib64 folders have to be in LD_LIBRARY_PATH.",
    ),
    (
        r"does not support querying ([\w-]{1,50})",
        "npu-smi does not support querying {0} on this device.",
    ),
    (r"There is no NPU card", "npu-smi reports that this server has no NPU card."),
    (
        r"driver package may not be completely installed",
        "npu-smi reports that the driver may not be completely installed (Driver_Install_Status "
        "in /etc/ascend_install.info).",
    ),
)


def clean_lines(text: str) -> List[str]:
    """Split text into lines without colour codes and control characters; drop overlong ones."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    lines = (_UNPRINTED.sub("", line).rstrip() for line in plain.split("\n"))
    return [line for line in lines if len(line) <= _LONGEST_LINE]


def parse_number(text: str) -> Optional[int]:
    """Parse a number of at most nine digits, 0 or more; None for anything else (``NA``, ``-``)."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None


def parse_decimal(text: str) -> Optional[float]:
    """Parse a decimal number; None for anything else (``NA``, ``-``)."""
    return float(text) if _DECIMAL.fullmatch(text.strip()) else None


def parse_cpus(text: str) -> Tuple[int, ...]:
    """Parse a list such as ``0-63,128-191`` into ascending numbers; empty if it is malformed."""
    cpus: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = parse_number(first), parse_number(last or first)
        if begin is None or end is None or not begin <= end < _MOST_CPUS:
            return ()
        cpus.update(range(begin, end + 1))
    return tuple(sorted(cpus))


def parse_pairs(text: str) -> Iterator[Tuple[str, str]]:
    """Yield the ``key : value`` lines; keys are in lower case, with single blanks."""
    for line in clean_lines(text):
        match = _PAIR.fullmatch(line)
        if match:
            yield " ".join(match.group(1).lower().split()), match.group(2).strip()


def quote_first_line(text: str) -> str:
    """Quote the first line that is not blank, for a message; ``nothing`` if there is none."""
    first = next((line.strip() for line in clean_lines(text) if line.strip()), None)
    if first is None:
        return "nothing"
    return repr(first if len(first) <= _LONGEST_QUOTE else f"{first[:_LONGEST_QUOTE]}...")


def explain_failures(text: str) -> List[str]:
    """Return one sentence for each known failure in a program's output; empty if there is none."""
    plain = "\n".join(clean_lines(text))
    matches = ((re.search(pattern, plain, re.I), meaning) for pattern, meaning in _FAILURES)
    return [meaning.format(*match.groups()) for match, meaning in matches if match]


class Answer(NamedTuple):
    """The result of running a program.

    Attributes:
        text: Its standard output, perhaps incomplete.
        errors: Its standard error.
        problem: Why the run failed, as a sentence; None if it did not.
        hung: Whether it was killed after a timeout.
    """

    text: str
    errors: str = ""
    problem: Optional[str] = None
    hung: bool = False


def find_program(
    name: str, environ: Mapping[str, str], root: str, places: Sequence[str]
) -> Optional[str]:
    """Find the path of a program; None if it is not installed.

    Args:
        name: The program.
        environ: The environment whose ``PATH`` is searched.
        root: Root of the host. If it is not ``/``, ``places`` are searched before ``PATH``.
        places: Folders below ``root`` where the vendor's installer puts the program.
    """
    installed = os.pathsep.join(os.path.join(root, place) for place in places)
    path = environ.get("PATH", "")
    order = (path, installed) if os.path.realpath(root) == "/" else (installed, path)
    programs = (shutil.which(name, path=folders) for folders in order if folders)
    return next((program for program in programs if program), None)


def run_program(
    argv: Sequence[str],
    environ: Mapping[str, str],
    timeout_s: float = TIME_LIMIT,
    name: Optional[str] = None,
) -> Answer:
    """Run a program to its end, in English and without input; failures are in the answer.

    Args:
        argv: The program's path and its arguments.
        environ: Its environment; ``LC_ALL=C`` is added.
        timeout_s: Seconds until it and all its children are killed.
        name: What messages call it; None means its name and its arguments.
    """
    argv = list(argv)
    program = name or " ".join([os.path.basename(argv[0]), *argv[1:]])
    answers: List[Answer] = []
    is_over, is_abandoned = threading.Event(), threading.Event()

    def run() -> None:
        try:
            answers.append(_run(program, argv, {**environ, "LC_ALL": "C"}, timeout_s, is_abandoned))
        finally:
            is_over.set()

    # In a thread, so that no signal handler can raise between the fork and storing the pid.
    thread = threading.Thread(target=run, name=f"run of {program}", daemon=True)
    try:
        thread.start()
        # With a timeout: a signal just before an endless wait would not interrupt the wait.
        while not is_over.wait(_POLL_S):
            pass
    except BaseException:
        # Such as Ctrl-C, which reaches only this process, even before start() returns.
        is_abandoned.set()
        is_over.wait(_KILL_S)
        raise
    return answers[0] if answers else Answer("", problem=f"{program!r} could not be run.")


def _run(
    program: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    timeout_s: float,
    is_abandoned: threading.Event,
) -> Answer:
    try:
        process: Any = subprocess.Popen(
            argv,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else error  # Python 3.7 adds the path to it
        return Answer("", problem=f"{program!r} could not be started: {reason}.")
    output = {process.stdout: bytearray(), process.stderr: bytearray()}
    with process.stdout, process.stderr:
        try:
            exceeded = _read_output(process, output, timeout_s, is_abandoned)
        except OSError as error:
            # Such as too many open files.
            _kill(process)
            return Answer("", problem=f"{program!r} could not be read from: {error}.")
        is_ended = _kill(process)  # with its children, also those of one that has ended
    text, errors = (bytes(part).decode("utf-8", "replace") for part in output.values())
    if exceeded is not None:
        fate = "was killed" if is_ended else "cannot be killed; it hangs in the driver"
        problem = f"{program!r} {exceeded} and {fate}."
        return Answer(text, errors, problem, hung=not exceeded.startswith("printed"))
    code = process.returncode
    if code == 0:
        return Answer(text, errors)
    end = f"exited with code {code}"
    if code < 0:
        try:
            end = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            end = f"was killed by signal {-code}"
    return Answer(
        text, errors, f"{program!r} {end} and printed {quote_first_line(errors or text)}."
    )


def _read_output(
    process: Any,
    output: Dict[Any, bytearray],
    timeout_s: float,
    is_abandoned: threading.Event,
) -> Optional[str]:
    """Read until the program ends; return how it exceeded a limit, or None if it did not."""
    deadline = time.monotonic() + timeout_s
    silent = f"did not answer within {timeout_s:g} s"
    with selectors.DefaultSelector() as pipes:
        for pipe in output:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or is_abandoned.is_set():
                return silent
            ready = pipes.select(min(remaining_s, _POLL_S))
            if not ready and _has_ended(process):
                return None  # one of its children holds the output open
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                output[key.fileobj].extend(chunk)
                if not chunk:
                    pipes.unregister(key.fileobj)
            if sum(map(len, output.values())) > _SIZE_LIMIT:
                return f"printed more than {_SIZE_LIMIT >> 20} MB"
    while not _has_ended(process):
        if time.monotonic() > deadline or is_abandoned.wait(0.01):
            return silent
    return None


def _has_ended(process: Any) -> bool:
    """Return whether a program has ended; it is not reaped, so that its pid stays reserved."""
    try:
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, flags) is not None
    except ChildProcessError:  # this process ignores SIGCHLD, so children reap themselves
        return process.poll() is not None


def _kill(process: Any) -> bool:
    """Kill a program and its children; return whether that worked."""
    # SIGKILL is safe here: until the program is reaped, no other group can have its pid.
    if process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_KILL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


_hung: Dict[str, List[str]] = {}  # by the path of a program that this process asks no more: notes


class Program:
    """Asks a program questions; never raises: `notes` has what failed.

    Once a program has hung, this process does not ask it again.

    Attributes:
        name: Its name.
        places: Folders below the host's root that are searched besides ``PATH``.
        note_if_missing: The note to add if the program is not found; may be empty.
        notes: A sentence for each failure.
        is_installed: True if it was found.
    """

    name: str
    places: Tuple[str, ...]
    note_if_missing = ""

    def __init__(
        self,
        environ: Mapping[str, str],
        root: str = "/",
        timeout: float = TIME_LIMIT,
        total: float = math.inf,
        say: Optional[Callable[[str], None]] = None,
    ) -> None:
        """Look for the program.

        Args:
            environ: The environment of the program, whose ``PATH`` is searched for it.
            root: Root of the host.
            timeout: Seconds that one answer may take.
            total: Seconds that all answers together may take.
            say: Called with a sentence, once, if the answers take more than 5 seconds.
        """
        self.notes: List[str] = []
        self._environ = environ
        self._timeout_s = timeout
        self._total_s, self._spent_s, self._say = total, 0.0, say
        self._path = find_program(self.name, environ, root, self.places)
        self.is_installed = self._path is not None
        if self._path is None:
            self.note(self.note_if_missing)
        elif self._path in _hung:
            self.notes += _hung[self._path]
            self._path = None

    @property
    def answers(self) -> bool:
        """True if the program is there and has answered in time so far."""
        return self._path is not None

    def ask(
        self, parse: Callable[[str], _Parsed], *arguments: str, may_be_empty: bool = False
    ) -> _Parsed:
        """Run the program in the time that is left, and return what ``parse`` makes of its output.

        If it cannot be run, or its time is used up, return ``parse("")``.

        Args:
            parse: Parses the output; must not raise, whatever it is.
            arguments: Arguments of the program.
            may_be_empty: Whether ``parse("")`` is a usual result, which needs no note.
        """
        nothing, path = parse(""), self._path
        if path is None:
            return nothing
        start = time.monotonic()
        remaining_s = min(self._timeout_s, self._total_s - self._spent_s)
        answer = run_program([path, *arguments], self._environ, remaining_s)
        self._spent_s += time.monotonic() - start
        if self._spent_s >= self._total_s and not answer.hung:
            self._path = None
            self.note(f"{self.name} was too slow to answer everything within {self._total_s:g} s.")
        elif self._say is not None and self._spent_s >= _SLOW_S:
            self._say(f"{self.name} is slow; waiting up to {self._total_s:g} s for it.")
            self._say = None
        parsed = parse(answer.text)
        problems = [answer.problem, *explain_failures(f"{answer.errors}\n{answer.text}")]
        if parsed == nothing and not may_be_empty and not any(problems):
            command = " ".join([self.name, *arguments])
            quoted = quote_first_line(answer.text if answer.text.strip() else answer.errors)
            problems.append(f"{command!r} printed nothing that could be read: {quoted}.")
        for problem in problems:
            self.note(problem)
        if answer.hung:
            again = f"{self.name} is not asked again: a faulty card can block it."
            self.note(again)
            if remaining_s == self._timeout_s:  # else others took its time
                _hung[path] = [*filter(None, problems), again]
            self._path = None
        return parsed

    def note(self, note: Optional[str]) -> None:
        """Add a note, unless it is empty or already there."""
        if note and note not in self.notes:
            self.notes.append(note)

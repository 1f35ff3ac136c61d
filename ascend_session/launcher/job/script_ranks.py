"""The ranks that a script starts itself, as the guardian sees them from outside.

Three things together keep a launch from a success that was none:

* each Python that is a rank records how it ended (`witness`, and `cluster.member` once it has
  joined the job). It is exact, but needs the launcher's PYTHONPATH;
* the guardian looks at the processes below it, here. It sees every program that lives long enough,
  and what its output goes to, but not how it ended;
* the text of the script says that it is for several ranks, if nothing was seen of them at all.

The guardian waits for ranks that outlive the script. `cause` decides with all three what failed.
A script that starts all ranks, and was itself started once for each of them, is found here, too.
"""

import contextlib
import os
import re
import time
from typing import (
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ascend_session.cluster.member import FAILED, JoinedProcess
from ascend_session.launcher.job.children import list_children
from ascend_session.launcher.job.signals import SHELLS
from ascend_session.rank_folder import SCRIPT_RANK_PID, is_alone, is_rank_of_script

_Seen = Tuple[int, str, str, str]  # pid, RANK_ID, command and what standard error goes to

# A program that cannot start its own one lives for milliseconds.
_OFTEN_S, _REGULARLY_S, _BEGIN_S = 0.02, 0.2, 20.0
# By then most scripts have started their ranks. Those of a late one import TensorFlow, which takes
# two seconds, and longer where each of several scripts starts all ranks.
_RARELY_S, _REPEATS_RARELY_S = 2.0, 5.0
_SHELL_S = 1.0  # that a shell which a script leaves behind has to start a rank
DEEPEST = 20
_READERS = ("tail", "tee")  # which go on as long as what they read, and start nothing
LARGEST_SHARE = 0.05  # of a CPU that looks take; one takes 0.1 ms for each process of the job


def _pause_s(began: float, early_s: float, later_s: float) -> float:
    """Choose how long a watch that began then waits until it looks again."""
    return early_s if time.monotonic() - began < _BEGIN_S else later_s


class ScriptWatch:
    """Looks for the ranks that a launch's only rank has started, below this process."""

    def __init__(self) -> None:
        self._known: Set[int] = set()
        self._began = self._last_seen = time.monotonic()
        self._is_over = False
        self._activity: List[Tuple[int, str]] = []
        self.absent: List[int] = []
        self._next_note = 0.0
        self._look_s = 0.0  # of CPU time that the last look took

    def next_look(self) -> float:
        """Give the time of the next look, as `time.monotonic` counts."""
        pause_s = _REGULARLY_S if self._is_over else _pause_s(self._began, _OFTEN_S, _RARELY_S)
        return time.monotonic() + max(pause_s, self._look_s / LARGEST_SHARE)

    def find_new(self) -> List[_Seen]:
        """Find the ranks that were not there before."""
        began = time.process_time()
        new = [rank for rank in _find_ranks(os.getpid()) if rank[0] not in self._known]
        self._look_s = time.process_time() - began
        self._known.update(rank[0] for rank in new)
        return new

    def note_absent(self, joining: Collection[int]) -> None:
        """Note which ranks do not live and can no more be started, in `absent`.

        Args:
            joining: The processes that wait for other ranks to join.
        """
        now = time.monotonic()
        if now >= self._next_note:
            self._next_note = now + _REGULARLY_S
            self.absent = self._find_absent(joining)

    def _find_absent(self, joining: Collection[int]) -> List[int]:
        """Find the ranks that do not live, if none of the living processes may start one.

        A rank that waits for others starts none, unless it has children, which may change its
        variables. Nor do a program that has only started a rank (``timeout``), and a shell that has
        done nothing since the last look, because it waits. Anything else may: a shell that works,
        or one that waits for a program which prepares something.
        """
        ranks: Set[str] = set()
        sizes: Set[str] = set()
        activity = []
        for pid, name, environ in _walk(os.getpid()):
            is_rank = is_rank_of_script(environ)
            if is_rank:
                ranks.add(environ["RANK_ID"])
                sizes.add(environ["RANK_SIZE"])
            if name in SHELLS:
                activity.append((pid, read_activity(pid)))
            elif name not in _READERS and not (is_rank and _is_idle(pid, name, joining)):
                return []
        is_quiet, self._activity = activity == self._activity, activity
        if not is_quiet or len(sizes) != 1 or not all(map(_is_number, ranks | sizes)):
            return []
        return sorted(set(range(int(sizes.pop()))) - {int(rank) for rank in ranks})

    def find_awaited(self, processes: Sequence[JoinedProcess]) -> Optional[List[str]]:
        """Give the RANK_ID of each rank that lives, once the script has ended; None if that is all.

        A board or a pager has the last one's variables if a script starts it below its loop. So
        what has not joined the job does not count where another process was that rank. A shell may
        be about to become a rank, and a rank may be exiting: they are given a moment.

        Args:
            processes: What the ranks have reported and left.
        """
        from ascend_session.cluster.member import ENDED, STARTED

        if not self._is_over:
            self._is_over, self._last_seen = True, time.monotonic()
        joined = [process for process in processes if process.joined]
        # By their own pid: what the script has started for each may be a program around it.
        awaited = {each.rank_id for each in joined if is_rank_of_script(read_environ(each.pid))}
        others = {process.rank_id for process in processes if process.state != STARTED}
        awaited |= {rank for _, rank, _, _ in _find_ranks(os.getpid())} - others
        is_exiting = any(each.state in (ENDED, FAILED) and each.is_alive for each in processes)
        if awaited:
            self._last_seen = time.monotonic()
        is_soon = time.monotonic() - self._last_seen <= _SHELL_S
        if not (awaited or (is_soon and (is_exiting or _has_shell(os.getpid())))):
            return None
        return sorted(awaited)


class RepeatWatch:
    """Looks for ranks that are there more than once, because each rank of a launch starts all.

    A shell that changes the number of its only rank, or gives one to a helper, starts no others. So
    what counts is a rank below which processes of two other ranks live, and are seen twice; or of
    both ranks, if there are two.

    Args:
        size: The number of ranks of the launch, above 1.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._began = time.monotonic()
        self._suspects: Set[int] = set()

    def next_look(self) -> float:
        """Give the time of the next look, as `time.monotonic` counts."""
        later_s = _REGULARLY_S if self._suspects else _REPEATS_RARELY_S
        return time.monotonic() + _pause_s(self._began, _REGULARLY_S, later_s)

    def find_repeated(self, ranks: Mapping[int, str]) -> Optional[Tuple[int, List[str]]]:
        """Find a rank of the launch that has started other ranks of it.

        Args:
            ranks: The pid of each that lives, and the RANK_ID that it has got.

        Returns:
            Its pid, and the RANK_ID of each rank below it.
        """
        numbers_below = {pid: set(self._find_numbers(pid, own)) for pid, own in ranks.items()}
        repeated = [pid for pid, numbers in numbers_below.items() if len(numbers) > 1]
        certain = self._suspects.intersection(repeated)
        self._suspects = set(repeated)
        if not certain:
            return None
        first = min(certain)
        return first, sorted(numbers_below[first], key=int)

    def _find_numbers(self, pid: int, own: str, depth: int = 0) -> Iterator[str]:
        for child in list_children(pid):
            name, environ = _name(child), read_environ(child)
            number = environ.get("RANK_ID", "")
            is_of_job = _is_number(number) and int(number) < self._size
            is_rank = is_of_job and not is_alone(environ.get("RANK_SIZE", "1"))
            is_own = number == own
            if is_own and _is_python(name):
                # Of two ranks, one and the other is all there is.
                yield from [number] if is_rank and self._size == 2 else []
            elif is_rank and not is_own and name not in SHELLS:  # whose tools have its own number
                yield number
            elif depth < DEEPEST:
                yield from self._find_numbers(child, own, depth + 1)


def _is_idle(pid: int, name: str, joining: Collection[int]) -> bool:
    has_children = bool(list_children(pid))
    if _is_python(name):
        return not has_children and pid in joining
    return has_children


def _find_ranks(pid: int, depth: int = 0) -> Iterator[_Seen]:
    """Find the first ranks below a process; what a rank starts is its own business."""
    for child in list_children(pid):
        environ = read_environ(child)
        is_rank = SCRIPT_RANK_PID not in environ and is_rank_of_script(environ)
        name = _name(child)
        if is_rank and name not in SHELLS:
            words = read_process_file(child, "cmdline").rstrip(b"\0").replace(b"\0", b" ")
            if words:  # else it has just ended
                output = ""
                with contextlib.suppress(OSError):
                    output = os.readlink(f"/proc/{child}/fd/2")
                command = words.decode("utf-8", "backslashreplace")
                yield child, environ["RANK_ID"], command, output
        elif depth < DEEPEST:
            yield from _find_ranks(child, depth + 1)


def _walk(pid: int, depth: int = 0) -> Iterator[Tuple[int, str, Dict[str, str]]]:
    """Give what lives below a process, but not below a Python of a rank: pid, name, environment."""
    for child in list_children(pid):
        name, environ = _name(child), read_environ(child)
        if read_process_file(child, "cmdline"):  # else it has just ended
            yield child, name, environ
        if depth < DEEPEST and not (_is_python(name) and is_rank_of_script(environ)):
            yield from _walk(child, depth + 1)


def read_activity(pid: int) -> str:
    """Read page faults and CPU time of a process and of what it has waited for.

    A shell that starts anything has more of them. Source: proc(5), fields 10 to 17 of ``stat``
    """
    fields = read_process_file(pid, "stat").rpartition(b")")[2].split()
    return b" ".join(fields[7:15]).decode("ascii", "replace")


def _has_shell(pid: int) -> bool:
    """Tell whether a shell lives right below a process."""
    return any(
        _name(child) in SHELLS and read_process_file(child, "cmdline")
        for child in list_children(pid)
    )


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _is_python(name: str) -> bool:
    return name.startswith("python")


def _name(pid: int) -> str:
    return read_process_file(pid, "comm").decode("utf-8", "replace").strip()


def read_environ(pid: int) -> Dict[str, str]:
    """Read the environment that a process was started with; empty if it cannot be read."""
    pairs = (
        os.fsdecode(entry).partition("=")
        for entry in read_process_file(pid, "environ").split(b"\0")
    )
    return {name: value for name, _, value in pairs}


def read_process_file(pid: int, name: str) -> bytes:
    """Read a file of a process in ``/proc``; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def has_preceded(first: JoinedProcess, second: JoinedProcess) -> bool:
    """Return whether the first of two ranks of a script had exited when the second one started."""
    have_met = first.pid in second.beside or second.pid in first.beside
    return 0 < first.began < second.began and not have_met


def find_lost(processes: Sequence[JoinedProcess]) -> List[JoinedProcess]:
    """Return the dead processes that an exception, a signal or a code other than 0 ended.

    A script may start and kill processes that are no ranks, and may start a rank again. So one that
    did not join the job counts unless another one was its rank, and ended in order.
    """
    good = [process for process in processes if not process.is_lost]
    return [
        process
        for process in processes
        if process.is_lost
        and (process.joined or not any(_makes_up_for(other, process) for other in good))
    ]


def _makes_up_for(other: JoinedProcess, lost: JoinedProcess) -> bool:
    """Return whether a process shows that another one with its RANK_ID was no rank that failed.

    The same program was started again after a signal had ended it; of another program it was a
    helper, which lived beside it or later. An evaluation after a training proves nothing.
    """
    if other.rank_id != lost.rank_id:
        return False
    if lost.state == FAILED:
        return other.joined and not lost.uses_vendor
    return has_preceded(lost, other) == (lost.program == other.program)


def find_unstarted(processes: Sequence[JoinedProcess], seen: Iterable[str]) -> List[int]:
    """Find the ranks that a script has not started, although it has started others of their job.

    A script for one of several machines starts a block of the ranks, and one may start any single
    rank: neither misses any.

    Args:
        processes: The state files; of the ranks, all have the same size.
        seen: The RANK_ID of ranks that were seen from outside.
    """
    sizes = {each.rank_size for each in processes if each.rank_size}
    names = {*seen, *(each.rank_id for each in processes)}
    if len(sizes) != 1 or not all(map(_is_number, sizes | names)):
        return []
    size, ranks = int(sizes.pop()), set(map(int, names))
    count, first = len(ranks), min(ranks)
    is_block = ranks == set(range(first, first + count)) and first % count == size % count == 0
    return [] if is_block else sorted(set(range(size)) - ranks)


_MOST_BYTES, _MOST_DIGITS = 1 << 18, 4
_ASSIGNED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)=[\"']?(\$?\{?[A-Za-z0-9_]+)")
_LOOPED = re.compile(r"\bfor\s*\(\(\s*RANK_ID=|\bfor\s+RANK_ID\s+in\b|\bRANK_ID=[\"']?\$")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_SCRIPT_NAME = re.compile(r"[\w.-]+\.sh\b")


def read_announced_size(words: Sequence[str], folder: str) -> Optional[int]:
    """Read from the text of a shell script how many ranks it starts, as it announces with numbers.

    Args:
        words: A command: ``bash train.sh``, ``./train.sh``, ``bash -c TEXT``.
        folder: Where it was started.

    Returns:
        The largest ``RANK_SIZE`` above 1; None if it sets none, or no ``RANK_ID``.
    """
    texts = _read_texts(words, folder)
    assigned = [pair for text in texts for pair in _ASSIGNED.findall(text)]
    numbers = {name: value for name, value in assigned if value.isdecimal()}
    sizes = [value.strip("${") for name, value in assigned if name == "RANK_SIZE"]
    counts = [numbers.get(size, size) for size in sizes]
    large = [int(count) for count in counts if _is_number(count) and int(count) > 1]
    sets_rank = any(name == "RANK_ID" for name, _ in assigned)
    return max(large) if large and sets_rank else None


def read_looped_size(words: Sequence[str], folder: str) -> Optional[int]:
    """Read the same as `read_announced_size`, if the number of the rank is that of a loop."""
    is_looped = any(map(_LOOPED.search, _read_texts(words, folder)))
    return read_announced_size(words, folder) if is_looped else None


def _read_texts(words: Sequence[str], folder: str) -> List[str]:
    """Read the text of a shell script, and of those that it names, without comments."""
    texts = [words[at + 1] for at in range(len(words) - 1) if words[at] in ("-c", "-ec", "-exc")]
    paths = [os.path.join(folder, word) for word in words if not word.startswith("-")]
    read: Set[str] = set()
    while paths:
        path = os.path.realpath(paths.pop())
        text = "" if path in read else _COMMENT.sub("", _read_script(path))
        read.add(path)
        texts.append(text)
        here = os.path.dirname(path)
        paths += [os.path.join(here, name) for name in set(_SCRIPT_NAME.findall(text))]
    return [_COMMENT.sub("", text) for text in texts]


def _read_script(path: str) -> str:
    """Read a file that is a shell script; empty if it is anything else."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return ""
    is_script = path.endswith(".sh") or re.match(rb"#!.*\b(?:ba|da|k|z|a)?sh\b", data)
    return data.decode("utf-8", "replace") if is_script and b"\0" not in data else ""

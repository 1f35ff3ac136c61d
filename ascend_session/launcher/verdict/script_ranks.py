"""Which of the ranks that a script has started failed, or were never there."""

import os
import re
from typing import Iterable, List, Optional, Sequence, Set

from ascend_session.cluster.member import FAILED, JoinedProcess


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
        processes: What has reported; of the ranks, all have the same size.
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


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS

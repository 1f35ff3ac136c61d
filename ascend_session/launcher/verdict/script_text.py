"""How many ranks a shell script starts, as far as its text says."""

import os
import re
from typing import List, Optional, Sequence, Set

from ascend_session.launcher.job.script_ranks import is_rank_number

_MOST_BYTES = 1 << 18
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
    large = [int(count) for count in counts if is_rank_number(count) and int(count) > 1]
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

"""How many processes and threads tune: TE_PARALLEL_COMPILER and TUNING_PARALLEL_NUM.

Sources: options_notes b (TE_PARALLEL_COMPILER) and c (AOE's own aoe.ini); the vendor's manual of
AOE, "Configuration File": aoe.ini is below tools/aoe/conf of the toolkit, newer ones have it in
conf; TUNING_PARALLEL_NUM is 8 if it is not there, and from 1 to 64.
"""

import os
import re
from typing import Iterator, Mapping, NamedTuple, Optional

from ascend_session.aoe.asked import MOST_PARALLEL, Asked
from ascend_session.hardware.versions import below

__all__ = ["Parallel", "compilers", "tuners"]

_COMPILERS, _MOST_COMPILERS, _DEFAULT = "TE_PARALLEL_COMPILER", 32, 8
_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
_PLACES = ("usr/local/Ascend/ascend-toolkit/latest", "usr/local/Ascend/cann")
_FILES = ("tools/aoe/conf/aoe.ini", "conf/aoe.ini")
_LINE = re.compile(r"\s*TUNING_PARALLEL_NUM\s*=\s*(.*?)\s*")
_MOST_CHARACTERS = 100000


class Parallel(NamedTuple):
    """A number of processes or threads.

    Attributes:
        number: The number; None if it is not known.
        origin: Where it is from, or why it is not known, in a few words.
        legal: Whether the vendor's software takes it.
        is_set: Whether anybody has said it; otherwise it is the default.
    """

    number: Optional[int]
    origin: str
    legal: bool = True
    is_set: bool = True


def compilers(environ: Mapping[str, str]) -> Parallel:
    """TE_PARALLEL_COMPILER: how many processes compile operators."""
    given = environ.get(_COMPILERS, "").strip()
    if not given:
        return Parallel(
            _DEFAULT, f"{_COMPILERS} is not set, and {_DEFAULT} by default", is_set=False
        )
    number = _whole(given)
    if number is None or not 1 <= number <= _MOST_COMPILERS:
        said = f"{_COMPILERS}={given!r} is no whole number from 1 to {_MOST_COMPILERS}"
        return Parallel(number, said, legal=False)
    return Parallel(number, f"{_COMPILERS}={number}")


def tuners(asked: Asked, environ: Mapping[str, str], root: str) -> Parallel:
    """TUNING_PARALLEL_NUM: how many threads tune.

    Args:
        asked: What the user says counts.
        environ: Names the toolkit, whose aoe.ini counts otherwise.
        root: Root of the host.
    """
    if asked.tuning_parallel_num is not None:
        number = asked.tuning_parallel_num
        return Parallel(number, f"tuning_parallel_num={number}, as was given")
    for path in _files(environ, root):
        text = _text(os.path.join(root, path))
        if text is not None:
            return _of_file(f"/{path}", text)
    return Parallel(None, "no aoe.ini of the toolkit was found")


def _of_file(path: str, text: str) -> Parallel:
    found = [match.group(1) for match in map(_LINE.fullmatch, text.splitlines()) if match]
    if not found:
        return Parallel(_DEFAULT, f"{path} does not say it, and it is {_DEFAULT} by default")
    number = _whole(found[-1])
    if number is None or not 1 <= number <= MOST_PARALLEL:
        said = f"{path} has {found[-1]!r}, which is no whole number from 1 to {MOST_PARALLEL}"
        return Parallel(number, said, legal=False)
    return Parallel(number, f"{path} has {number}")


def _files(environ: Mapping[str, str], root: str) -> Iterator[str]:
    named = [below(root, environ[name]) for name in _HOMES if environ.get(name)]
    for folder in (*named, *_PLACES):
        for name in _FILES:
            yield os.path.join(folder, name)


def _text(path: str) -> Optional[str]:
    if not os.path.isfile(path):  # a pipe would keep whoever opens it
        return None
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    except (OSError, ValueError):
        return None


def _whole(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None

"""The home directory of the user who tunes, and how many processes and threads AOE starts.

Sources: the vendor's manual, TE_PARALLEL_COMPILER; the manual of AOE, "Configuration File": aoe.ini
is in tools/aoe/conf of the toolkit, or in conf of newer ones; TUNING_PARALLEL_NUM is from 1 to 64,
and 8 by default.
"""

import os
import pwd
import re
from typing import Mapping, NamedTuple, Optional

from ascend_session.hardware.installation import TOOLKIT_FOLDERS, TOOLKIT_VARIABLES, strip_root
from ascend_session.hardware.nodes import read_host_file
from ascend_session.spelling import Message, option

MOST_PARALLEL = 64
"""The highest TUNING_PARALLEL_NUM."""

_COMPILERS, _MOST_COMPILERS, _DEFAULT = "TE_PARALLEL_COMPILER", 32, 8
_FILES = ("tools/aoe/conf/aoe.ini", "conf/aoe.ini")
_LINE = re.compile(r"\s*TUNING_PARALLEL_NUM\s*=\s*(.*?)\s*")


def find_home(environ: Mapping[str, str]) -> str:
    """Return ``HOME``, else the home directory of this user's account, else ``/``."""
    given = environ.get("HOME")
    if given:
        return given
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container may run as a user without an account
        return "/"


class Parallel(NamedTuple):
    """A number of processes or threads, and where it comes from.

    Attributes:
        number: The number; None if the setting is not a number.
        origin: Where it is set, or what is wrong with it, as a sentence without full stop.
        legal: Whether the vendor's software accepts it.
        is_set: True if it is set anywhere; False if it is the default.
    """

    number: Optional[int]
    origin: str
    legal: bool = True
    is_set: bool = True

    @property
    def legal_number(self) -> Optional[int]:
        """The number if the vendor's software accepts it, else None."""
        return self.number if self.legal else None


def count_compilers(environ: Mapping[str, str]) -> Parallel:
    """Find TE_PARALLEL_COMPILER, the number of processes that compile operators."""
    given = environ.get(_COMPILERS, "").strip()
    if not given:
        origin = f"{_COMPILERS} is not set, and {_DEFAULT} by default"
        return Parallel(_DEFAULT, origin, is_set=False)
    number = _parse_whole(given)
    if number is None or not 1 <= number <= _MOST_COMPILERS:
        origin = f"{_COMPILERS}={given!r} is not a whole number from 1 to {_MOST_COMPILERS}"
        return Parallel(number, origin, legal=False)
    return Parallel(number, f"{_COMPILERS}={number}")


def count_tuners(given: Optional[int], environ: Mapping[str, str], root: str) -> Parallel:
    """Find TUNING_PARALLEL_NUM, the number of threads that tune.

    Args:
        given: The number that the user gives; None means that of the toolkit's aoe.ini.
        environ: The environment, which may name the toolkit.
        root: Root of the host.
    """
    if given is not None:
        return Parallel(given, Message(f"{option('tuning_parallel_num', given)}, as was given"))
    named = [strip_root(root, environ[name]) for name in TOOLKIT_VARIABLES if environ.get(name)]
    for folder in (*named, *TOOLKIT_FOLDERS):
        for name in _FILES:
            path = os.path.join(root, folder, name)
            if os.path.isfile(path) and os.access(path, os.R_OK):
                text = read_host_file(root, path) or ""
                return _parse_aoe_ini(f"/{os.path.join(folder, name)}", text)
    origin = f"No aoe.ini of the toolkit was found; the default is {_DEFAULT}"
    return Parallel(_DEFAULT, origin, is_set=False)


def _parse_aoe_ini(path: str, text: str) -> Parallel:
    values = [match.group(1) for match in map(_LINE.fullmatch, text.splitlines()) if match]
    if not values:
        return Parallel(_DEFAULT, f"{path} does not set it; the default is {_DEFAULT}")
    number = _parse_whole(values[-1])
    if number is None or not 1 <= number <= MOST_PARALLEL:
        origin = f"{path} has {values[-1]!r}, which is not a whole number from 1 to {MOST_PARALLEL}"
        return Parallel(number, origin, legal=False)
    return Parallel(number, f"{path} has {number}")


def _parse_whole(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None

"""After how long a wait for other ranks is worth a word, and when HCCL gives it up.

Source of these limits: guides/facts/launch.md#hccl-timeouts
"""

import math
from typing import List, Mapping, Sequence, Tuple, Type

from ascend_session.backends.base import Backend
from ascend_session.cluster.variables import STALL_NOTE, read_number, read_seconds, uses_collectives
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.spelling import Message, option
from ascend_session.vendor import CONNECT_SECONDS, CONNECT_SECONDS_MORE, EXECUTION_SECONDS

NOTE_S = 60.0
"""After which a wait for other ranks is noted, unless `STALL_NOTE` says otherwise."""


def note_after_s(environ: Mapping[str, str]) -> float:
    """Read after how many seconds a wait is noted; 0 for never."""
    given = read_seconds(environ, STALL_NOTE)
    return NOTE_S if given is None else given


_CONNECT = f"HCCL_CONNECT_TIMEOUT and {CONNECT_SECONDS_MORE} s more"


def note_short_timeout(
    seconds: float, backend: Type[Backend], ranks: Sequence[LaunchRank]
) -> List[str]:
    """Warn before the start, in sentences, that a slow start would be reported as a stall."""
    link, _ = _limits(backend, ranks)
    note = Message(
        f"{option('stall_timeout')}={seconds:g} s is shorter than the {link:g} s that HCCL gives "
        f"ranks to find each other ({_CONNECT}): a slow start would be reported as a stall. "
        f"Give more than {link:g}."
    )
    return [note] if seconds < link else []


def _limits(backend: Type[Backend], ranks: Sequence[LaunchRank]) -> Tuple[float, float]:
    """Compute the seconds after which HCCL gives up linking and a collective; 0 without HCCL."""
    environments = [rank.environment for rank in ranks]
    if not backend.needs_rank_table or not any(map(uses_collectives, environments)):
        return 0, 0
    links = [read_number(environ, "HCCL_CONNECT_TIMEOUT") for environ in environments]
    waits = [read_seconds(environ, "HCCL_EXEC_TIMEOUT") for environ in environments]
    # HCCL refuses to start with what is out of range, and 0 is for ever.
    link = min(given if given and 120 <= given <= 7200 else CONNECT_SECONDS for given in links)
    wait = min(math.inf if given == 0 else max(given or EXECUTION_SECONDS, 1) for given in waits)
    return link + CONNECT_SECONDS_MORE, wait


def describe_limits(
    seconds: float, backend: Type[Backend], ranks: Sequence[LaunchRank]
) -> List[str]:
    """Say in sentences when HCCL would have given up a job that stalled for so long."""
    link, wait = _limits(backend, ranks)
    sentences = []
    if seconds < link:
        more = f"only after {link:g} s ({_CONNECT})"
        sentences.append(f"HCCL itself gives up finding the other ranks {more}.")
    if seconds < wait < math.inf:
        step = max(wait // 68 * 68, 68)
        more = "" if step == wait else f"; on a 910A {step:g} s"
        more = f"only after {wait:g} s (HCCL_EXEC_TIMEOUT, or the script's hccl_timeout{more})"
        sentences.append(f"HCCL itself gives up a collective {more}.")
    if wait == math.inf:
        sentences.append("HCCL itself never gives up a collective (HCCL_EXEC_TIMEOUT=0).")
    return sentences

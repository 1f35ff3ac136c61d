"""How long HCCL waits.

``FAKE_GE_HCCL_SECOND`` is how long one of its seconds takes here, default 1; tests that wait for
the end of a time limit make it short.
"""

import os
import time
from typing import Optional

__all__ = ["until"]

_DEFAULTS = {"HCCL_CONNECT_TIMEOUT": 120.0, "HCCL_EXEC_TIMEOUT": 1836.0}
# guides/facts/launch.md#hccl-timeouts: what is added to HCCL_CONNECT_TIMEOUT
_ADDED = {"HCCL_CONNECT_TIMEOUT": 20.0}
_FOR_EVER = 1e9


def until(variable: str, option: Optional[int] = None) -> float:
    """The end, of ``time.monotonic``, of a wait that begins now.

    Args:
        variable: Names the limit.
        option: hccl_timeout, if it was given; it counts before the variable.
    """
    # The steps of 68 s of Atlas training are not modelled: the host is an A2.
    text = os.environ.get(variable, "")
    seconds = float(text) if text.isdigit() else _DEFAULTS[variable]
    seconds = seconds if option is None else float(option)
    # guides/facts/launch.md#hccl-timeouts: 0 is never
    seconds = seconds + _ADDED.get(variable, 0.0) if seconds else _FOR_EVER
    return time.monotonic() + seconds * float(os.environ.get("FAKE_GE_HCCL_SECOND") or 1)

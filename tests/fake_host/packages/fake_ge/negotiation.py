"""Ranks without a table: all tell the chief who they are, and it tells everyone the list.

Source: guides/facts/launch.md#jobs-without-a-rank-table; hicann/hcomm,
topoinfo_exchange_server.cc (isByMasterInfo).
"""

import contextlib
import os
import pickle
import socket
import time
from typing import Any, List, Mapping

from fake_ge import limits
from fake_ge.links import UnreachableError, accept, connect, read, write
from fake_ge.messages import nested

__all__ = ["NegotiationError", "negotiated"]


class NegotiationError(Exception):
    """The ranks did not come together; the text is what HCCL says."""


def negotiated(options: Mapping[str, str], device: int, physical: int, size: int) -> List[int]:
    """The physical ids of all ranks' devices, in the order of the ranks.

    Args:
        options: What was read from ``CM_*``.
        device: This process's logical device.
        physical: Its physical id.
        size: How many ranks there are.

    Raises:
        NegotiationError: If they are not all there in time.
    """
    end = limits.until("HCCL_CONNECT_TIMEOUT")
    name = f"chief/{options['cm_chief_ip']}:{options['cm_chief_port']}"
    # guides/facts/launch.md#jobs-without-a-rank-table: CM_CHIEF_DEVICE is logical
    is_chief = int(options["cm_chief_device"]) == device
    try:
        if is_chief:
            return _collect(name, physical, size, end)
        with contextlib.closing(connect(name, end)) as connection:
            connection.settimeout(max(end - time.monotonic(), 0.01))
            write(connection, pickle.dumps(physical))
            answer = read(connection)
    except (OSError, UnreachableError):
        answer = None
    if answer is None:
        # guides/facts/failures.md#ranks-that-do-not-meet
        raise NegotiationError(nested("EI0015", f"the chief {name[6:]} cannot be reached"))
    return list(answer)


def _collect(name: str, physical: int, size: int, end: float) -> List[int]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(accept(name)))
        agents: List[Any] = []
        found = [physical]
        while len(found) < size:
            listener.settimeout(max(end - time.monotonic(), 0.01))
            try:
                agents.append(stack.enter_context(contextlib.closing(listener.accept()[0])))
            except socket.timeout:
                raise NegotiationError(
                    nested("EI0015", f"{len(found)} of {size} ranks in {os.getpid()}")
                ) from None
            found.append(int(read(agents[-1])))
        # topoinfo_exchange_server.cc, GetRanksBasicInfo: without rank ids the ranks are numbered
        # "superPodId + serverip + deviceid"; there is one server here
        found.sort()
        for agent in agents:
            write(agent, pickle.dumps(found))
    return found

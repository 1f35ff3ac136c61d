"""Find the peers, ranks or devices, that HCCL's log lines name.

Source: guides/facts/failures.md#ranks-that-hccl-names
"""

import re
from typing import Iterator, List, NamedTuple, Optional

_ADDRESS = r"(?P<address>[^\]/,\s)]{1,64})"
_DEVICE = r"(?P<device>[0-9]{1,4})"
LOCATION = re.compile(rf"Cluster Exception Location\[IP/ID\]:\[{_ADDRESS}/{_DEVICE}\]")
_LINES = [
    re.compile(
        r"(?:dst_rank|remoteRank)\[(?P<in_group>[0-9]{1,7})\]"
        r"(?:-remoteUserrank\[(?P<rank>[0-9]{1,7})\])?"
        rf"(?:-remote(?:_ip_addr|IpAddr)\[{_ADDRESS}(?:/{_DEVICE})?\])?"
    ),
    re.compile(rf"dstRank \(server {_ADDRESS}, device ID {_DEVICE}"),
    re.compile(rf"destRank\[{_ADDRESS}/{_DEVICE}\]"),
    re.compile(rf"Peer information: server {_ADDRESS}, device ID {_DEVICE}"),
    re.compile(r"(?:[Rr]emote|[Pp]eer) rank:? ?\[?(?P<rank>[0-9]{1,7})(?![0-9.])"),
    re.compile(r"Failed to connect agent\[(?P<ranks>[0-9, ]{1,4000})\]"),
    re.compile(r"unconnected ranks: \"?\[(?P<ranks>[0-9, ]{1,4000})\]"),
    re.compile(r"connect server\[(?P<address>[^\]\s]{1,64}) : [0-9]{1,5}\] failed"),
    LOCATION,
]


class Peer(NamedTuple):
    """A rank or device that a line of HCCL's log names.

    Attributes:
        rank: Its rank in the job, or in a group if ``in_group``; None if the line has no rank.
        address: Address of its server; empty if the line has none.
        device: The N of its ``/dev/davinciN``; None if the line has none.
        in_group: Whether ``rank`` is the rank in a group (HCCL's communicator), not in the job.
    """

    rank: Optional[int] = None
    address: str = ""
    device: Optional[int] = None
    in_group: bool = False

    def __str__(self) -> str:
        """Return its name, as in ``rank 5 at 10.0.0.2 (device 1)``."""
        if self.rank is None and self.device is not None:
            return f"device {self.device} of {self.address}"
        if self.rank is None:
            return f"the rank that collects the others, at {self.address}"
        place = f" at {self.address}" if self.address else ""
        group = " of its group" if self.in_group else ""
        device = "" if self.device is None else f" (device {self.device})"
        return f"rank {self.rank}{group}{place}{device}"


def find_peers(text: str) -> List[Peer]:
    """Find the peers in a text, each once, in the order of appearance."""
    matches = {match.start(): match for line in _LINES for match in line.finditer(text)}
    peers = (peer for start in sorted(matches) for peer in _read_peers(matches[start]))
    return list(dict.fromkeys(peers))


def _read_peers(match: "re.Match[str]") -> Iterator[Peer]:
    parts = match.groupdict()
    if parts.get("ranks"):
        for number in re.findall("[0-9]{1,7}", parts["ranks"]):
            yield Peer(int(number))
        return
    rank = parts.get("rank") or parts.get("in_group")
    device = parts.get("device")
    yield Peer(
        None if rank is None else int(rank),
        parts.get("address") or "",
        None if device is None else int(device),
        in_group=bool(parts.get("in_group")) and not parts.get("rank"),
    )

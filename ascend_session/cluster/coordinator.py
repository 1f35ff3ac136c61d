"""Where the ranks of a job on the stub meet, if nobody has said it: a scheduler's job says enough.

All processes of the job have to come to the same answer, so it follows from what the scheduler
tells all of them. The port is not kept for the job, unless the scheduler keeps one: rank 0 says so
if somebody else has it.
"""

import hashlib
import socket
import subprocess
from typing import Mapping, Optional, Tuple

from ascend_session.cluster.claim import Claim
from ascend_session.cluster.variables import COORDINATOR
from ascend_session.errors import JobError

__all__ = [
    "address_of_node",
    "coordinator_of",
    "derived_port",
    "is_address",
    "is_loopback",
    "parts_of",
]

_LOOPBACK = "127.0.0.1"
# Below those of Kubernetes, from 30000, and those that Linux gives to outgoing connections, from
# 32768; HCCL has 16666 and 60000 on.
_FIRST, _COUNT = 20000, 10000
_PATIENCE = 20.0  # seconds for an answer of Slurm's controller


def coordinator_of(environ: Mapping[str, str], claim: Optional[Claim]) -> Optional[str]:
    """Where rank 0 listens for the others, ``host:port``.

    Args:
        environ: The environment; its `COORDINATOR` counts first.
        claim: What the scheduler says that has started the processes; None without one.

    Returns:
        The address, or None if neither says enough.
    """
    given = environ.get(COORDINATOR)
    if given or claim is None or not claim.seed:
        return given or None
    port = claim.port or derived_port(claim.seed)
    if claim.is_on_one_node:
        return f"{_LOOPBACK}:{port}"
    if claim.hosts is None or not claim.hosts[1]:
        return None
    host = address_of_node(claim.hosts[1])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def derived_port(seed: str) -> int:
    """A port that follows from the name of a job."""
    digest = hashlib.sha256(seed.encode("utf-8", "surrogateescape")).digest()
    return _FIRST + int.from_bytes(digest[:4], "big") % _COUNT


def parts_of(address: str) -> Tuple[str, int]:
    """Host and port of ``host:port`` or ``[host]:port``.

    Raises:
        JobError: If it is neither.
    """
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or not port.isdigit() or not 0 < int(port) < 65536:
        raise JobError(
            f"{address!r} is not where ranks could meet: that is HOST:PORT.",
            hint=f"Give an address of the machine of rank 0 and a free port ({COORDINATOR}).",
        )
    if ":" in bare and bare == host:
        raise JobError(f"{address!r}: an IPv6 address is written [{bare}]:{port}.")
    return bare, int(port)


def is_address(text: str) -> bool:
    """Whether it is an IP address, and no name."""
    import ipaddress  # few launches need it

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host, a name or an address, is this machine and nothing else."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of_node(name: str) -> str:
    """The name of a Slurm node if it can be looked up, else its NodeAddr, as Slurm reaches it.

    Raises:
        JobError: If neither can be had.
    """
    try:
        socket.getaddrinfo(name, None)
        return name
    except OSError:
        found = _node_address(name)
    if found is None:
        raise JobError(
            f"The ranks were to meet on {name!r}, the first node of Slurm's step, but that name "
            "has no address here, and 'scontrol show node' does not know one either.",
            hint=f"export {COORDINATOR}=HOST:PORT, with an address of the first node.",
        )
    return found


def _node_address(name: str) -> Optional[str]:
    try:
        said = subprocess.run(
            ["scontrol", "--oneliner", "show", "node", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return None
    words = dict(word.partition("=")[::2] for word in said.split())
    return words.get("NodeAddr") or None

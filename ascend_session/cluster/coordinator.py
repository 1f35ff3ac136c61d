"""The address at which rank 0 of a job on the stub listens for the other nodes, and its port.

Where the user gives none, it is derived from what the scheduler tells every process of the job, so
that all of them come to the same one. Ranks on one node need no address. The derived port is not
reserved, unless the scheduler reserves one: rank 0 reports it if another program has the port.

The launcher binds the port without listening, until rank 0 listens there. Another process can still
listen at a port that is bound with SO_REUSEADDR, as gRPC does with ``so_reuseport=0``. As long as
it is bound on every interface, Linux gives such a port to nobody who asks for any free one, nor to
an outgoing connection; one that is bound on 127.0.0.1 alone it does give away on other addresses.
"""

import hashlib
import re
import socket
import subprocess
from typing import Mapping, Optional, Tuple

from ascend_session.cluster.schedulers import Claim
from ascend_session.cluster.variables import COORDINATOR
from ascend_session.errors import JobError

# Below those of Kubernetes, from 30000, and those that Linux gives to outgoing connections, from
# 32768; HCCL has 16666 and 60000 on.
_FIRST_PORT, _PORT_COUNT = 20000, 10000
_SCONTROL_TIMEOUT_S = 20.0


def find_coordinator(environ: Mapping[str, str], claim: Optional[Claim]) -> Optional[str]:
    """Find the address at which rank 0 listens for the other nodes, ``host:port``.

    Args:
        environ: The environment; its `COORDINATOR` counts first.
        claim: What the scheduler that started the processes says; None without one.

    Returns:
        The address; None if neither says enough, or if the scheduler's job is on one node.
    """
    given = environ.get(COORDINATOR)
    if given or claim is None or not claim.seed or claim.is_on_one_node:
        return given or None
    port = claim.port or derive_port(claim.seed)
    if claim.hosts is None or not claim.hosts[1]:
        return None
    host = find_node_address(claim.hosts[1])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def derive_port(seed: str) -> int:
    """Derive a port from the name of a job."""
    digest = hashlib.sha256(seed.encode("utf-8", "surrogateescape")).digest()
    return _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORT_COUNT


def split_address(address: str) -> Tuple[str, int]:
    """Split ``host:port`` or ``[host]:port`` into its parts.

    Raises:
        JobError: If it is neither.
    """
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_port = re.fullmatch("[0-9]{1,5}", port) is not None and 0 < int(port) < 65536
    if not colon or not bare or not is_port:
        raise JobError(
            f"{address!r} is not of the form HOST:PORT.",
            hint=f"Give an address of rank 0's machine and a free port there ({COORDINATOR}).",
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


def find_node_address(name: str) -> str:
    """Give the name of a Slurm node if it can be resolved here, else its NodeAddr.

    Raises:
        JobError: If there is neither.
    """
    try:
        socket.getaddrinfo(name, None)
        return name
    except OSError:
        address = _ask_slurm(name)
    if address is None:
        raise JobError(
            f"{name!r}, the first node of Slurm's step, cannot be resolved here, and 'scontrol "
            "show node' has no address for it; the ranks of the other nodes would not find rank 0.",
            hint=f"export {COORDINATOR}=HOST:PORT, with an address of the first node.",
        )
    return address


def _ask_slurm(name: str) -> Optional[str]:
    try:
        output = subprocess.run(
            ["scontrol", "--oneliner", "show", "node", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SCONTROL_TIMEOUT_S,
            check=True,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return None
    words = dict(word.partition("=")[::2] for word in output.split())
    return words.get("NodeAddr") or None


def bind_port(port: int = 0) -> socket.socket:
    """Bind a port on every interface, of IPv6 too where there is that; 0 means any free one.

    Raises:
        OSError: If the port is taken, or may not be bound.
    """
    try:
        return bind_address(socket.AF_INET6, "::", port)
    except OSError:
        return bind_address(socket.AF_INET, "", port)


def bind_address(family: int, address: str, port: int = 0) -> socket.socket:
    """Bind a port on an address."""
    bound = socket.socket(family)
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except BaseException:
        bound.close()
        raise
    return bound


def claim_port(port: int) -> socket.socket:
    """Claim a port for a job, so that no second launcher uses it; give up the claim by closing it.

    Two sockets with SO_REUSEADDR can be bound to one port as long as neither listens, and without
    it connections of a job that has just ended keep the port from the next one. So the claim is a
    name among the abstract sockets: like ports these belong to a network namespace, and they vanish
    with their last owner.

    Raises:
        OSError: If another launcher has the port (EADDRINUSE).
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0ascend_session port {port}")
    except BaseException:
        claim.close()
        raise
    return claim


def is_own_address(address: str) -> bool:
    """Whether an IP address is one of this machine, at which a program here can listen."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        bind_address(family, address).close()
    except OSError:
        return False
    return True

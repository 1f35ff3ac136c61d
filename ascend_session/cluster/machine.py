"""Jobs on the stub run on one machine: checks that rank 0 is on this one.

Only HCCL, on devices, connects machines. A job on the stub may have several nodes if all are the
same machine, as in rehearsals of a command.
"""

import socket
import subprocess
from typing import List, Mapping, Optional

from ascend_session.cluster.kubernetes import is_in_pod
from ascend_session.errors import JobError

ONE_MACHINE = (
    "Without devices, start all ranks on one machine (ascend-session launch -n ...); with devices, "
    "HCCL connects machines."
)

REMOVED = (
    "ASCEND_SESSION_COORDINATOR",
    "ASCEND_SESSION_SECRET",
    "ASCEND_SESSION_SECRET_FILE",
    "ASCEND_SESSION_TLS_CA",
    "ASCEND_SESSION_TLS_CERT",
    "ASCEND_SESSION_TLS_KEY",
)
"""Former variables about connections between machines."""

_SCONTROL_TIMEOUT_S = 20.0


def check_removed(environ: Mapping[str, str]) -> None:
    """Raise JobError if a variable asks for connections between machines."""
    names = [name for name in REMOVED if environ.get(name)]
    if names:
        raise JobError(
            f"{' and '.join(names[:2])} has no effect any more: the ranks of a job on the stub "
            "meet on one machine.".replace(" has ", " have " if len(names) > 1 else " has ", 1),
            hint=f"Unset it. {ONE_MACHINE}",
        )


def check_first_host(host: str, source: str, environ: Mapping[str, str]) -> None:
    """Raise JobError if the first node of a job is known to be another machine.

    Args:
        host: Its name or address; unknown names pass.
        source: The source of the name.
        environ: The environment; a pod does not have the address of its host.
    """
    if not host or is_in_pod(environ):
        return
    addresses = find_addresses(host)
    if addresses and not any(is_own_address(address) for address in addresses):
        raise JobError(
            f"Rank 0 of this job is on {host} ({source}), and this is another machine, "
            f"{socket.gethostname()}; the ranks of a job on the stub meet on one machine.",
            hint=ONE_MACHINE,
        )


def find_addresses(host: str) -> List[str]:
    """List the IP addresses of a host; none if it cannot be resolved, not even by Slurm."""
    for name in (host, None):
        try:
            known = _ask_slurm(host) if name is None else name
            found = socket.getaddrinfo(known, None) if known else []
        except OSError:
            continue
        if found:
            return [str(address[4][0]) for address in found]
    return []


def is_own_address(address: str) -> bool:
    """Return whether an IP address is one of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def is_address(text: str) -> bool:
    """Return whether it is an IP address, and not a name."""
    import ipaddress  # few launches need it

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _ask_slurm(name: str) -> Optional[str]:
    """Return the NodeAddr of one of Slurm's nodes, whose name need not be that of a machine."""
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

"""Check that all nodes of a job on the stub are this machine.

Only HCCL, on devices, connects machines. A job on the stub may have several nodes if they are all
the same machine, as when one tries out the commands for several nodes.
"""

import socket
import subprocess
from typing import List, Mapping, Optional

from ascend_session.cluster.kubernetes import is_in_pod
from ascend_session.errors import JobError
from ascend_session.text import join_words

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
"""Variables of version 0.1 that connected machines."""

_SCONTROL_TIMEOUT_S = 20.0  # a busy controller answers late, a dead one never


def check_removed(environ: Mapping[str, str]) -> None:
    """Raise JobError if variables ask for connections between machines; name all of them."""
    names = [name for name in REMOVED if environ.get(name)]
    if names:
        have, them = ("has", "it") if len(names) == 1 else ("have", "them")
        raise JobError(
            f"{join_words(names)} {have} no effect any more: all ranks of a job on the stub run "
            "on one machine.",
            hint=f"Unset {them}. {ONE_MACHINE}",
        )


def check_first_host(host: str, source: str, environ: Mapping[str, str]) -> None:
    """Raise JobError if the first node of a job is known to be another machine.

    Args:
        host: Its name or address; a name that cannot be resolved passes.
        source: Where the name is from, for the message.
        environ: The environment; inside a pod nothing is checked, because the addresses of its
            host are not its own.
    """
    if not host or is_in_pod(environ):
        return
    addresses = _resolve(host) or _resolve(_ask_slurm(host))
    if addresses and all(map(find_address_fault, addresses)):
        raise JobError(
            f"Rank 0 of this job is on {host} ({source}), but this machine is "
            f"{socket.gethostname()}; all ranks of a job on the stub run on one machine.",
            hint=ONE_MACHINE,
        )


def _resolve(host: Optional[str]) -> List[str]:
    """List the IP addresses of a host; none if it cannot be resolved."""
    try:
        return [str(each[4][0]) for each in socket.getaddrinfo(host, None)] if host else []
    except OSError:
        return []


def find_address_fault(address: str) -> str:
    """Return why an IP address is none of this machine, in the system's words; empty if it is."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def is_address(text: str) -> bool:
    """Return whether a text is an IP address, and not a name."""
    import ipaddress  # few launches need it

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _ask_slurm(name: str) -> Optional[str]:
    """Return the address of a Slurm node; its NodeName need not be a host name."""
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
    fields = dict(field.partition("=")[::2] for field in output.split())
    return fields.get("NodeAddr") or None

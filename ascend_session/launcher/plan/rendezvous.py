"""How ranks on devices find each other: by a rank table, or at a chief.

Source: guides/facts/launch.md#jobs-without-a-rank-table, guides/facts/launch.md#hccl-ports
"""

import os
import socket
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from ascend_session.backends.base import Backend
from ascend_session.cluster.kubernetes import find_mounted_table
from ascend_session.cluster.variables import RENDEZVOUS
from ascend_session.errors import JobError
from ascend_session.launcher.plan.decided import (
    Decided,
    Request,
    make_absolute,
)
from ascend_session.launcher.plan.devices import RankDevice, find_product, list_physical
from ascend_session.launcher.plan.nodes import Nodes
from ascend_session.spelling import Message, option
from ascend_session.vendor import A2, TRAINING

_TABLE = "RANK_TABLE_FILE"


class Rendezvous(NamedTuple):
    """How the ranks of a job find each other; a job of one rank may have none of these.

    Attributes:
        rank_table: Absolute path of the rank table.
        chief: The variables of ranks that meet on devices without a table.
        name: That under which ranks meet on the stub.
    """

    rank_table: Optional[str] = None
    chief: Mapping[str, str] = {}
    name: Optional[str] = None

    @property
    def variables(self) -> Dict[str, str]:
        """The variables by which all ranks know it."""
        optional = {_TABLE: self.rank_table, RENDEZVOUS: self.name}
        return {
            **self.chief,
            **{name: value for name, value in optional.items() if value is not None},
        }


def decide_rendezvous(
    request: Request,
    backend: Type[Backend],
    nodes: Nodes,
    devices: Sequence[RankDevice],
    job_id: str,
) -> Decided[Rendezvous]:
    """Decide how the ranks find each other.

    It is refused if several devices are to be one job and nothing says how, if the table is not
    there, or if the chief cannot be where it was asked for (JobError).
    """
    config, environ = request.config, request.job_environ
    size = nodes.size(len(devices))
    name = None
    if backend.needs_rendezvous and size > 1:
        # Launchers on several nodes know nothing of each other but the job.
        name = f"nodes_of_{job_id}" if nodes.count > 1 else os.urandom(16).hex()
    inherited, mounted = environ.get(_TABLE), find_mounted_table(environ)
    if config.rank_table is not None:
        source = option("rank_table", config.rank_table)
        table = _check_table(config.rank_table, source)
        return Rendezvous(table, name=name), _note_name_fault(table, source)
    if not devices:  # which is refused already
        return Rendezvous(), ()
    if not backend.needs_rank_table:
        vain = f"{option('no_rank_table')} has no effect on the {backend.name}, which has no chief."
        notes: List[str] = [Message(vain)] if config.no_rank_table else []
        if inherited and not config.no_rank_table and nodes.table is None:
            why = f"on the {backend.name} the ranks of this launch are a job of their own"
            notes.append(_note_ignored(inherited, why))
        return Rendezvous(name=name), tuple(notes)
    if config.no_rank_table and nodes.count > 1:
        raise JobError(
            f"{option('no_rank_table')} is given, but the job has {nodes.count} nodes: the "
            "launcher finds a chief for the ranks of one node only.",
            hint=f"Give {option('rank_table')}, the table of all nodes.",
        )
    if config.no_rank_table:
        return _find_chief(request, devices)
    if size == 1:
        why = "this launch is one rank alone"
        return Rendezvous(), (_note_ignored(inherited, why),) if inherited else ()
    if inherited:
        source = f"{_TABLE}={inherited!r}"
        table = _check_table(inherited, source)
        note = f"{source} was inherited, and is the rank table of this job."
        return Rendezvous(table), (note, *_note_name_fault(table, source))
    if mounted is not None:
        note = f"{mounted} is mounted, and is the rank table of this job."
        return Rendezvous(os.path.abspath(mounted)), (note,)
    raise JobError(
        f"A job of {size} devices needs {option('rank_table')} or {option('no_rank_table')}: "
        "without them each rank would silently train alone.",
        hint=f"Give {option('rank_table')}; on Atlas training and A2, {option('no_rank_table')} "
        "also works.",
    )


def _note_ignored(table: str, why: str) -> str:
    """Say that the table which is set is not this job's; each such launch is a job of its own."""
    return Message(
        f"{_TABLE}={table!r} is ignored: {why}. Give {option('rank_table')} to go by the table."
    )


def _check_table(given: str, source: str) -> str:
    """Return the absolute path of a rank table, which has to be a file."""
    path = make_absolute(given)
    if not os.path.isfile(path):
        problem = f"there is no file {path}; HCCL would abort the ranks"
        if os.path.exists(path):
            kind = "a folder" if os.path.isdir(path) else "a pipe or a device"
            problem = f"{path} is {kind}, and HCCL reads a rank table from a file"
        raise JobError(f"{source}: {problem}.", hint="Give the path of the job's rank table.")
    return path


def _note_name_fault(path: str, source: str) -> Tuple[str, ...]:
    """Say in a sentence what HCCL may not like about the name of a table, if there is anything."""
    from ascend_session.cluster.rank_table.table_file import find_name_fault

    fault = find_name_fault(path)
    return (Message(f"{source}: {fault}"),) if fault else ()


def _find_chief(request: Request, devices: Sequence[RankDevice]) -> Decided[Rendezvous]:
    """Find where ranks without a table meet; it is on this server, as are all ranks.

    Raises:
        JobError: If their product has no job without one, or the chief cannot be there.
    """
    notes = []
    config = request.config
    product, able = find_product(list_physical(devices), request), (TRAINING, A2)
    if product is None:
        notes.append(
            "The product is not known; only Atlas training (910A) and A2 do without a table."
        )
    elif product not in able:
        raise JobError(
            f"{option('no_rank_table')} is set, but the devices are {product}: only {able[0]} and "
            f"{able[1]} find each other without a rank table.",
            hint=f"Give {option('rank_table')}.",
        )
    if request.assumed is not None:
        address = config.chief_ip or _ELSEWHERE[0]
        port = config.chief_port or _CANDIDATES[0]
        if not (config.chief_ip and config.chief_port):
            notes.append(
                f"The chief at {address}:{port} is an example: a launch on that machine takes its "
                "own address and a free port."
            )
    else:
        address = config.chief_ip or _own_address()
        port = _find_port(address, config.chief_port, request.job_environ)
        if config.chief_port is None:
            notes.append(
                f"Port {port} on {address} was free when this plan was made; another process can "
                "take it before rank 0 does."
            )
    chief = {
        "CM_CHIEF_IP": address,
        "CM_CHIEF_PORT": str(port),
        "CM_CHIEF_DEVICE": str(int(devices[0].logical)),
        "CM_WORKER_SIZE": str(len(devices)),
        "CM_WORKER_IP": address,
    }
    return Rendezvous(chief=chief), tuple(notes)


# Below the ports that Linux gives to outgoing connections (ip_local_port_range, from 32768), so
# that none of these takes the port before the chief does.
_CANDIDATES = range(20000, 32768)
_TRIES = 200
# An address for documentation (RFC 5737): nothing is sent there, only the route is looked up.
_ELSEWHERE = ("192.0.2.1", 9)


def _own_address() -> str:
    """Find the IPv4 address of the interface that leads out of this server, else loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _find_port(address: str, given: Optional[int], environ: Mapping[str, str]) -> int:
    """Find a TCP port for the chief, which nobody on this server has bound at the moment.

    It is not reserved: until the chief binds it, another process can take it.

    Args:
        address: The chief's IPv4 or IPv6 address, which has to be one of this server's.
        given: The port that the user gave; None for any.
        environ: The environment of the job, for ``HCCL_IF_BASE_PORT``.

    Raises:
        JobError: If the address is none of this server's, if the port that was given is bound or is
            one that HCCL takes itself, or if no port was free.
    """
    import random

    from ascend_session.checks.network import list_hccl_ports
    from ascend_session.cluster.machine import find_address_fault

    taken_by_hccl = set(list_hccl_ports(environ))
    fault = "" if given in taken_by_hccl else find_address_fault(address)
    if fault:
        raise JobError(
            f"{option('chief_ip', address)} is not an address of this server ({fault}), where "
            "all ranks of the job run.",
            hint=f"Leave {option('chief_ip')} out, or give an address that `ip addr` shows.",
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if given is None:
        # Not the process's own generator: a seeded one would give all launches the same ports.
        for port in random.SystemRandom().sample(_CANDIDATES, _TRIES):
            if port not in taken_by_hccl and _is_free(family, port):
                return port
        raise JobError(
            f"Of {_TRIES} ports tried between {_CANDIDATES[0]} and {_CANDIDATES[-1]} on {address}, "
            "none was free.",
            hint=f"Give {option('chief_port')}.",
        )
    if given in taken_by_hccl:
        why = "HCCL uses that port itself"
    elif not _is_free(family, given, reuse=True):
        why = "another process has bound it, or this user may not"
    else:
        return given
    raise JobError(
        f"{option('chief_port', given)} cannot be the port of the chief: {why}.",
        hint=f"Leave {option('chief_port')} out, and a free one is taken.",
    )


def _is_free(family: int, port: int, reuse: bool = False) -> bool:
    """Tell whether the port can be bound on all addresses of the family.

    Args:
        family: ``socket.AF_INET`` or ``AF_INET6``.
        port: The port.
        reuse: Whether one on which an ended job's connections still linger counts as free.
    """
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True

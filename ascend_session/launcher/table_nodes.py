"""What a rank table of several servers says to the launcher on one of them."""

from typing import TYPE_CHECKING, List, Mapping, Optional, Sequence

from ascend_session.cluster.kubernetes import in_pod, mounted_table
from ascend_session.errors import JobError
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import Chosen, RankDevice, on_npu, on_stub

if TYPE_CHECKING:
    from ascend_session.cluster.table_place import TableNode, TableNodes
    from ascend_session.launcher.nodes import Nodes

__all__ = ["chosen_for", "table_of", "table_path"]


def table_of(
    config: LaunchConfig, backend: str, environ: Mapping[str, str], nodes_are_said: bool
) -> "Optional[TableNodes]":
    """The nodes of the job's rank table, if it has several; one, if it is this job's on the stub.

    Args:
        config: What the launch is asked.
        backend: ``npu`` or ``stub``, where an inherited table of other machines does not count.
        environ: The launcher's environment with what the user adds.
        nodes_are_said: Whether something else says that there are several nodes.

    Returns:
        None without a table, for one of one server that was inherited or is for devices, and for
        one that cannot be read as long as nothing in it, nor anything else, says that there are
        several nodes: HCCL says it then.

    Raises:
        JobError: If a table of several nodes is none that HCCL takes.
    """
    path = table_path(config, backend, environ, nodes_are_said)
    if path is None:
        return None
    from ascend_session.cluster.table_place import may_have_several, table_nodes

    try:
        found = table_nodes(path, environ)
    except JobError:
        if nodes_are_said or path == mounted_table(environ) or may_have_several(path):
            raise  # or half a job would be planned as a whole one
        return None
    # On devices the preflight compares the table of one server with what is asked.
    is_jobs = backend == "stub" and path in (config.rank_table, mounted_table(environ))
    return found if nodes_are_said or len(found.nodes) > 1 or is_jobs else None


def table_path(
    config: LaunchConfig, backend: str, environ: Mapping[str, str], nodes_are_said: bool
) -> Optional[str]:
    """The file of the table that counts; None without one. The arguments are those of `table_of`.

    It may not be there.
    """
    if config.no_rank_table:
        return None
    counts = backend == "npu" or nodes_are_said or in_pod(environ)
    inherited = environ.get("RANK_TABLE_FILE") if counts else None
    return config.rank_table or inherited or mounted_table(environ)


def chosen_for(
    config: LaunchConfig, backend: str, nodes: "Nodes", environ: Mapping[str, str]
) -> Chosen:
    """The devices of this node's ranks: those of the rank table, if that counts.

    Raises:
        DeviceError: If there are no such devices.
        JobError: If the table says something else than what is asked.
    """
    choose_devices = on_npu if backend == "npu" else on_stub
    if nodes.part is None:
        return choose_devices(config.devices, config.processes, environ)
    asked, count = config.devices, config.processes
    if asked is None and backend == "npu":
        asked = _devices_of(nodes.part, environ)
    elif asked is None and count is None:
        count = len(nodes.part.devices)
    chosen = choose_devices(asked, count, environ)
    _check_devices_of(nodes.part, chosen.devices)
    return chosen


def _devices_of(node: "TableNode", environ: Mapping[str, str]) -> List[int]:
    """Logical ids of a node's devices, by rank.

    Args:
        node: The node.
        environ: The launcher's environment.

    Raises:
        JobError: If one is not here.
    """
    from ascend_session.backends.npu_devices import Devices

    physical = [int(one) for one in Devices.of(environ).physical]
    wanted = [int(one.device_id) for one in node.devices]
    missing = [str(one) for one in wanted if one not in physical]
    if missing:
        raise JobError(
            f"The rank table gives {node.name} the devices {', '.join(missing)}, which this "
            "process does not get.",
            hint="`ascend-session devices` shows what it gets; compare server_id in the table.",
        )
    return [physical.index(one) for one in wanted]


def _check_devices_of(node: "TableNode", devices: Sequence[RankDevice]) -> None:
    """Compares the devices that were chosen with those of the table.

    Raises:
        JobError: If they differ.
    """
    table = [int(one.device_id) for one in node.devices]
    chosen = [one.physical for one in devices]
    if len(chosen) != len(table):
        raise JobError(
            f"{len(chosen)} ranks are to run on this node, but the rank table gives {node.name} "
            f"{len(table)}.",
            hint="Leave processes and devices out to go by the table.",
        )
    here = [int(one) for one in chosen if one is not None]
    if here and here != table:
        raise JobError(
            f"The ranks of this node are to run on the physical devices {here}, but the rank table "
            f"gives {node.name} {table}; HCCL would end them.",
            hint="Leave devices out to go by the table.",
        )

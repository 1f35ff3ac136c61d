"""Whether a rank table is one, and whether it means the devices that will be opened.

Source: launch_facts.md, A2, rule 6 (the table's id must be the physical id of the device that a
process opens) and E (EI0004, EI0014, EI0017).
"""

from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.checks.finding import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding, listed
from ascend_session.cluster.rank_table import RankTable
from ascend_session.errors import JobError

__all__ = ["Read", "check_ranks", "read_table"]

_CHECK = "rank table"
_ANEW = "Make the table again for these devices, or choose the devices that it names."


class Read(NamedTuple):
    """A rank table, as far as it could be read.

    Attributes:
        table: What it says; None if it could not be read.
        findings: What is wrong with it in itself.
    """

    table: Optional[RankTable]
    findings: Tuple[Finding, ...]

    @property
    def leaves_server(self) -> Optional[bool]:
        """Whether its job has ranks on several servers; None if that is not known."""
        return None if self.table is None else len(self.table.servers) > 1

    def addresses(self, ranks: Mapping[int, int]) -> Dict[int, Tuple[str, ...]]:
        """The table's addresses for each device of these ranks that it names too."""
        devices = () if self.table is None else self.table.devices
        return {
            int(one.device_id): tuple(one.device_ip)
            for one in devices
            if ranks.get(one.rank_id) == int(one.device_id)
        }


def read_table(path: str, family: Optional[str], environ: Mapping[str, str]) -> Read:
    """Reads a table and checks HCCL's rules; waits for nobody, and takes no pipe or folder.

    Args:
        path: The file.
        family: The product, as in `hardware.families`; None if not known.
        environ: The environment of the ranks.
    """
    try:
        table = RankTable.read(path)
    except JobError as refused:
        return Read(None, (Finding(_CHECK, ERROR, refused.message, refused.hint),))
    except OSError as error:
        said = f"{path} cannot be read as a rank table: {error.strerror}."
        return Read(None, (Finding(_CHECK, ERROR, said, "Name the table's own file."),))
    found: List[Finding] = []
    for one in table.findings(family, environ):
        place = f", {one.place}" if one.place else ""
        severity = {"error": ERROR, "warning": WARNING, "info": INFO}.get(one.severity, NOT_CHECKED)
        found.append(Finding(_CHECK, severity, f"{path}{place}: {one.said}", one.hint))
    if not any(finding.severity == ERROR for finding in found):
        servers = f"{len(table.servers)} server(s)"
        said = f"{path} has {table.size} rank(s) on {servers}, in the format {table.format}."
        found.append(Finding(_CHECK, OK, said))
    return Read(table, tuple(found))


def check_ranks(table: RankTable, ranks: Mapping[int, int], size: int) -> Iterator[Finding]:
    """Compares the table with the ranks of a job that run on this server.

    Args:
        table: The table.
        ranks: The physical id of the device of each of these ranks.
        size: Number of ranks of the whole job.
    """
    found: List[Finding] = []
    if table.size != size:
        said = f"The rank table has {table.size} rank(s), but this job {size}."
        hint = f"Launch {table.size} ranks, or make a table for {size}."
        found.append(Finding(_CHECK, ERROR, said, hint))
    means = {device.rank_id: int(device.device_id) for device in table.devices}
    for rank, physical in sorted(ranks.items()):
        if rank in means and means[rank] != physical:
            said = (
                f"The rank table gives rank {rank} device {means[rank]}, but the rank opens "
                f"/dev/davinci{physical}; HCCL refuses that."
            )
            found.append(Finding(_CHECK, ERROR, said, _ANEW))
    yield from found
    if not found:
        there = listed(ranks.values())
        yield Finding(_CHECK, OK, f"The rank table gives its ranks here device(s) {there}.")

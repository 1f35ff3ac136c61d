"""Whether a rank table is one, and whether it means the devices that will be opened.

The rules are those of `cluster.rank_table`, which also the command ``ranktable`` goes by.
"""

from typing import Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.checks.finding import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding, errors
from ascend_session.cluster.rank_table import RankTable, TableFinding
from ascend_session.cluster.rank_table.host import check_host
from ascend_session.errors import JobError
from ascend_session.hardware.device import DeviceReport
from ascend_session.ids import PhysicalDeviceId

__all__ = ["TABLE", "Read", "check_table", "read_table"]

TABLE = "rank table"
_IT = "The rank table"
_ANEW = "Make the table anew, or choose the devices that it names."
_SEVERITIES = {"error": ERROR, "warning": WARNING, "info": INFO, "not checked": NOT_CHECKED}


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


def read_table(path: str, family: Optional[str], environ: Mapping[str, str]) -> Read:
    """Reads a table and checks HCCL's rules; waits for nobody, and takes no pipe or folder.

    Args:
        path: The file.
        family: The product, as in `hardware.families`; None if not known.
        environ: The environment of the ranks.
    """
    try:
        table = RankTable.read(path, family)
    except JobError as refused:
        found = list(_of(path, refused.findings))
        alone = Finding(TABLE, ERROR, refused.message, refused.hint)
        return Read(None, tuple(found if errors(found) else [alone]))
    except OSError as error:
        said = f"{path} cannot be read as a rank table: {error.strerror}."
        return Read(None, (Finding(TABLE, ERROR, said, "Name the table's own file."),))
    found = list(_of(path, table.findings(family, environ)))
    if not errors(found):
        servers = f"{len(table.servers)} server(s)"
        said = f"{path} has {table.size} rank(s) on {servers}, in the format {table.format}."
        found.append(Finding(TABLE, OK, said))
    return Read(table, tuple(found))


def check_table(
    table: RankTable,
    report: DeviceReport,
    opened: Optional[Mapping[int, PhysicalDeviceId]] = None,
    size: Optional[int] = None,
) -> Iterator[Finding]:
    """Compares a table with this host, and with a job.

    Args:
        table: The table.
        report: What was seen of the machine, with the cards' addresses.
        opened: The device that each rank of this host will open; None without a job.
        size: Number of ranks of the whole job; None without one.
    """
    found: List[Finding] = []
    if size is not None and table.size != size:
        said = f"The rank table has {table.size} rank(s), but this job {size}."
        hint = f"Launch {table.size} ranks, or make a table for {size}."
        found.append(Finding(TABLE, ERROR, said, hint))
    found += _of(_IT, check_host(table, report, opened))
    yield from found
    if not any(finding.severity in (ERROR, NOT_CHECKED) for finding in found):
        yield Finding(TABLE, OK, "The devices that the table gives this host are here.")


def _of(name: str, findings: Iterable[TableFinding]) -> Iterator[Finding]:
    """Findings on a table as those on a host."""
    for one in findings:
        about = f"{name}, {one.place}: " if one.place else f"{name}: " if name != _IT else ""
        severity = _SEVERITIES.get(one.severity, NOT_CHECKED)
        hint = _ANEW if severity == ERROR and one.hint is None else one.hint
        yield Finding(TABLE, severity, f"{about}{one.said}", hint)

"""Checks of a rank table: HCCL's rules, and the devices that will be opened.

The rules are in `cluster.rank_table`; the command ``ranktable`` checks the same.
"""

from typing import Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.rank_table import RankTable
from ascend_session.cluster.rank_table.host import check_host, find_host_names
from ascend_session.errors import JobError
from ascend_session.findings import ERROR, NOT_CHECKED, OK, Finding, errors_of
from ascend_session.hardware.device_report import DeviceReport
from ascend_session.ids import PhysicalDeviceId

TABLE = "rank table"
_IT = "The rank table"
_ANEW = "Make a new table, or choose the devices that it names."


class CheckedTable(NamedTuple):
    """A rank table that was read, and its findings.

    Attributes:
        table: The table; None if it could not be read.
        findings: Violations of HCCL's rules, or why it could not be read; one that is "not checked"
            for a table that only HCCL reads.
    """

    table: Optional[RankTable]
    findings: Tuple[Finding, ...]

    @property
    def leaves_server(self) -> Optional[bool]:
        """True if the job has ranks on several servers; None if that is not known."""
        return None if self.table is None else len(self.table.servers) > 1


def read_table(path: str, family: Optional[str], environ: Mapping[str, str]) -> CheckedTable:
    """Read a table and check HCCL's rules; never raises, and refuses pipes and folders.

    Args:
        path: The file.
        family: The product family, as `hardware.families` names it; None if not known.
        environ: The environment of the ranks.
    """
    try:
        table = RankTable.read(path, family)
    except JobError as error:
        findings = list(_about(path, error.findings))
        if not findings:
            findings = [Finding(ERROR, error.message, error.hint, rule=TABLE)]
        return CheckedTable(None, tuple(findings))
    except OSError as error:
        message = f"{path} cannot be read as a rank table: {error.strerror}."
        finding = Finding(ERROR, message, "Give the path of a rank table.", rule=TABLE)
        return CheckedTable(None, (finding,))
    findings = list(_about(path, table.findings(family, environ)))
    if not errors_of(findings):
        servers = f"{len(table.servers)} server(s)"
        message = f"{path} has {table.size} rank(s) on {servers}, in the format {table.format}."
        findings.append(Finding(OK, message, rule=TABLE))
    return CheckedTable(table, tuple(findings))


def check_table(
    table: RankTable,
    report: DeviceReport,
    opened: Optional[Mapping[int, PhysicalDeviceId]] = None,
    size: Optional[int] = None,
) -> Iterator[Finding]:
    """Compare a table with this host, and with a job if there is one.

    Args:
        table: The table.
        report: The devices of this host, with their addresses.
        opened: The device that each rank on this host will open; None without a job.
        size: The number of ranks of the whole job; None without a job.
    """
    findings: List[Finding] = []
    if size is not None and table.size != size:
        message = f"The rank table has {table.size} rank(s), but this job {size}."
        hint = f"Launch {table.size} ranks, or make a table for {size}."
        findings.append(Finding(ERROR, message, hint, rule=TABLE))
    findings += _about(_IT, check_host(table, report, find_host_names(), opened))
    yield from findings
    if not any(finding.severity in (ERROR, NOT_CHECKED) for finding in findings):
        yield Finding(OK, "The devices that the table gives this host are here.", rule=TABLE)


def _about(name: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Turn findings about a table into findings about a host, whose messages name the table."""
    for finding in findings:
        about = "" if name == _IT else f"{name}: "
        if finding.place:
            about = f"{name}, {finding.place}: "
        hint = finding.hint or (_ANEW if finding.severity == ERROR else None)
        yield Finding(finding.severity, f"{about}{finding.message}", hint, rule=TABLE)

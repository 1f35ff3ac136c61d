"""`RankTable`: which rank of a job has which device, on which server, under which address."""

import os
from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from ascend_session.cluster.rank_table.building import (
    Addresses,
    Source,
    from_devices,
    from_lists,
    merged,
    numbered,
    training_faults,
)
from ascend_session.cluster.rank_table.contents import (
    COMPLETED,
    INITIALIZING,
    V1_0,
    V1_2,
    Contents,
)
from ascend_session.cluster.rank_table.findings import (
    ERROR,
    RankTableError,
    TableFinding,
    sort_findings,
)
from ascend_session.cluster.rank_table.host import check_host
from ascend_session.cluster.rank_table.parts import TableServer
from ascend_session.cluster.rank_table.reading import read
from ascend_session.cluster.rank_table.rules import check_rules
from ascend_session.cluster.rank_table.source import name_fault, read_text
from ascend_session.cluster.rank_table.waiting import Tell, wait_until_completed
from ascend_session.cluster.rank_table.writing import text_of, write_text
from ascend_session.errors import JobError
from ascend_session.hardware.device import Device, DeviceReport, devices
from ascend_session.ids import PhysicalDeviceId

__all__ = ["RankTable"]

Servers = Union[Mapping[str, Mapping[int, Addresses]], Sequence[TableServer]]


@dataclass(frozen=True)
class RankTable(Contents):
    """A rank table of HCCL.

    Attributes:
        name: The file it was read from; empty for one that was built.
        remarks: What was odd about its text and fields when it was read.
    """

    name: str = field(default="", compare=False)
    remarks: Tuple[TableFinding, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def read(cls, path: str) -> "RankTable":
        """Reads a file of version 1.0, 1.2, template 2 or the "lab" variant.

        Raises:
            JobError: If it cannot be read, or is no rank table.
            RankTableError: If its fields are wrong, with all there is to say. A table whose fields
                are right may still be none that HCCL takes, see `check`. Of one at "initializing"
                whatever is there already is read.
        """
        path = os.fspath(path)
        return cls._of_text(read_text(path), path, _of_name(path))

    @classmethod
    def from_text(cls, text: str, name: str = "the rank table") -> "RankTable":
        """Reads the text of a table, as `read` reads a file; ``name`` is for messages."""
        return cls._of_text(text, name, [])

    @classmethod
    def wait_for(cls, path: str, seconds: float, tell: Optional[Tell] = None) -> "RankTable":
        """Reads a file that somebody else still fills in, as soon as it is completed.

        Args:
            path: The file; while it is waited for it need not be there, nor be whole.
            seconds: How long to wait.
            tell: Called before each second's pause with what is missing and how much time is left.

        Raises:
            JobError: If it is not completed in that time, or as from `read`.
        """
        path = os.fspath(path)
        return cls._of_text(wait_until_completed(path, seconds, tell), path, _of_name(path))

    @classmethod
    def build(
        cls, servers: Servers, *, family: Optional[str] = None, force: bool = False
    ) -> "RankTable":
        """Makes a table of the devices that are given; ranks follow their order.

        Args:
            servers: ``{server_id: {physical id: address}}``, where an address is a text, a list
                of them, or None if it is not known; or `TableServer` objects, whose ranks are
                given anew, server by server.
            family: The product, for its rules; None if not known.
            force: Make a table for the Atlas training series also of devices in two rings, or
                without addresses.

        Raises:
            JobError: If HCCL would refuse the table.
        """
        made = from_lists(servers) if isinstance(servers, Mapping) else numbered(servers)
        return cls._built(made, family, force)

    @classmethod
    def of_host(
        cls,
        report: Union[DeviceReport, Sequence[Device], None] = None,
        *,
        server_id: Optional[str] = None,
        host_ip: Optional[str] = None,
        force: bool = False,
    ) -> "RankTable":
        """Makes a table of the devices that this process gets, in the order of their logical ids.

        Args:
            report: What `ascend_session.devices` found; it is asked if None. A list of some of its
                devices is taken as well.
            server_id: Name of this server; that of the host if None.
            host_ip: Its address, if the table is to have it.
            force: As in `build`.

        Raises:
            JobError: If there is no device, or HCCL would refuse the table.
        """
        found = devices() if report is None else report
        used = found.visible if isinstance(found, DeviceReport) else found
        families = {device.family for device in used}
        family = families.pop() if len(families) == 1 else None
        return cls._built(from_devices(used, server_id, host_ip), family, force)

    @classmethod
    def merge(cls, tables: Sequence["RankTable"], *, family: Optional[str] = None) -> "RankTable":
        """Makes one table of those of several servers, each of which made its own.

        Raises:
            JobError: If two tables name the same server, one is not completed, or HCCL would
                refuse the result.
        """
        if not tables:
            raise JobError("Rank tables were to be merged, but there is none.")
        for table in tables:
            table._refuse_errors()
        sources = [Source(one.name or f"table {n}", one) for n, one in enumerate(tables, 1)]
        kind, servers = merged(sources)
        made = cls(kind, COMPLETED, servers)
        made.check(family)
        return made

    @classmethod
    def _built(
        cls, servers: Tuple[TableServer, ...], family: Optional[str], force: bool
    ) -> "RankTable":
        with_pods = bool(servers) and all(server.super_pod_id for server in servers)
        made = cls(V1_2 if with_pods else V1_0, COMPLETED, servers)
        # Through its text, so that names and addresses are looked at as HCCL looks at them.
        made = cls.from_text(text_of(made, made.format), "the table")
        made.check(family)
        faults = [] if force else training_faults(servers, family)
        if faults:
            raise JobError("\n".join(faults), hint="Give force to make it all the same.")
        return made

    def problems(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> List[TableFinding]:
        """Everything that HCCL refuses, or that cannot work; see `findings`."""
        return [one for one in self.findings(family, environ) if one.severity == ERROR]

    def findings(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> List[TableFinding]:
        """Everything there is to say: errors, warnings, and what could not be checked.

        Args:
            family: The product, one of `ascend_session.hardware.families`; None if not known.
            environ: The environment of the ranks; None for one in which nothing is set.
        """
        return sort_findings([*self.remarks, *check_rules(self, family, environ)])

    def host_findings(
        self,
        report: DeviceReport,
        opened: Optional[Mapping[int, PhysicalDeviceId]] = None,
        names: Optional[Sequence[str]] = None,
    ) -> List[TableFinding]:
        """Whether the table fits a host; see `cluster.rank_table.host.check_host`."""
        return list(check_host(self, report, opened, names))

    def check(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> None:
        """Looks at all rules.

        Raises:
            RankTableError: If there are `problems`, with all of them.
        """
        found = self.problems(family, environ)
        if found:
            raise RankTableError.of(self.name or "The rank table", found, self.format)

    def text(self, version: Optional[str] = None) -> str:
        """The table as JSON.

        Args:
            version: ``1.0`` or ``1.2``; that of the table, if it has one of them, or 1.0.

        Raises:
            JobError: If it has not what version 1.2 needs.
        """
        return text_of(self, version or (V1_2 if self.format == V1_2 else V1_0))

    def write(self, path: str, version: Optional[str] = None, *, force: bool = False) -> None:
        """Writes a file that is at no time there in part.

        Args:
            path: Its name, which has to end in ``.json``.
            version: As in `text`.
            force: Whether a file that is there may be replaced.

        Raises:
            RankTableError: If HCCL would refuse the table; one at "initializing" is written.
            JobError: If the file is there already or cannot be written, or as from `text`.
        """
        self._refuse_errors(but="status")
        write_text(os.fspath(path), self.text(version), force)

    def _refuse_errors(self, but: str = "") -> None:
        """As `check`, without what the file's name or text has of its own."""
        wrong = [one for one in check_rules(self) if one.severity == ERROR and one.place != but]
        if wrong:
            raise RankTableError.of(self.name or "The rank table", wrong, self.format)

    @classmethod
    def _of_text(cls, text: str, name: str, remarks: List[TableFinding]) -> "RankTable":
        reading = read(name, text)
        found, says = reading.found.as_tuple(), reading.contents
        if says.status == INITIALIZING:
            found = ()
        elif reading.found.refused:
            more = check_rules(says, complete=reading.complete)
            found = tuple(sort_findings([*found, *remarks, *more]))
            raise RankTableError.of(name, found, says.format)
        return cls(says.format, says.status, says.servers, name, (*found, *remarks))


def _of_name(path: str) -> List[TableFinding]:
    fault = name_fault(path)
    return [TableFinding(ERROR, "", fault, None, "launch_facts A2 rule 12")] if fault else []

"""`RankTable`: which rank of a job has which device, on which server, under which address."""

import os
from dataclasses import dataclass, field, replace
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
    TableFinding,
    refusal,
    sort_findings,
)
from ascend_session.cluster.rank_table.host import check_host
from ascend_session.cluster.rank_table.parts import TableServer
from ascend_session.cluster.rank_table.reading import read
from ascend_session.cluster.rank_table.rules import check_rules
from ascend_session.cluster.rank_table.source import name_fault, read_text
from ascend_session.cluster.rank_table.superpods import reads_super_pods
from ascend_session.cluster.rank_table.waiting import Tell, wait_until_completed
from ascend_session.cluster.rank_table.writing import text_of, write_text
from ascend_session.errors import JobError
from ascend_session.hardware.device import Device, DeviceReport, devices
from ascend_session.hardware.families import named_family
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.npu_smi import NpuSmi
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
    def read(cls, path: str, family: Optional[str] = None) -> "RankTable":
        """Reads a file of version 1.0, 1.2, template 2 or the "lab" variant.

        Args:
            path: The file.
            family: The product, as in `findings`; None if it is not known. What is wrong with
                superpods is a warning on products where HCCL does not read them.

        Raises:
            JobError: If it cannot be read, or is no rank table; with all that is wrong with its
                fields. A table whose fields are right may still be none that HCCL takes, see
                `check`. Of one at "initializing" whatever is there already is read.
        """
        path = os.fspath(path)
        return cls._of_text(read_text(path), path, _of_name(path), family)

    @classmethod
    def from_text(
        cls, text: str, name: str = "the rank table", family: Optional[str] = None
    ) -> "RankTable":
        """Reads the text of a table, as `read` reads a file; ``name`` is for messages."""
        return cls._of_text(text, name, [], family)

    @classmethod
    def wait_for(
        cls,
        path: str,
        seconds: float,
        tell: Optional[Tell] = None,
        family: Optional[str] = None,
    ) -> "RankTable":
        """Reads a file that somebody else still fills in, as soon as it is completed.

        Args:
            path: The file; while it is waited for it need not be there, nor be whole.
            seconds: How long to wait.
            tell: Called before each second's pause with what is missing and how much time is left.
            family: The product, as in `read`.

        Raises:
            JobError: If it is not completed in that time, or as from `read`.
        """
        path = os.fspath(path)
        text = wait_until_completed(path, seconds, tell)
        return cls._of_text(text, path, _of_name(path), family)

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
        version: str = V1_0,
        force: bool = False,
    ) -> "RankTable":
        """Makes a table of the devices that this process gets, in the order of their logical ids.

        Args:
            report: What `ascend_session.devices` found; it is asked if None. A list of some of its
                devices is taken as well.
            server_id: Name of this server; that of the host if None.
            host_ip: Its address, if the table is to have it.
            version: ``1.2`` asks ``npu-smi`` where each device is in its superpod (A3).
            force: As in `build`.

        Raises:
            JobError: If there is no device, HCCL would refuse the table, or nobody says what
                version 1.2 needs.
        """
        found = devices() if report is None else report
        used = found.visible if isinstance(found, DeviceReport) else found
        families = {device.family for device in used}
        family = families.pop() if len(families) == 1 else None
        npu_smi = NpuSmi(os.environ, host_root(os.environ)) if version == V1_2 else None
        place_of = None if npu_smi is None else npu_smi.super_pod
        made = cls._built(from_devices(used, server_id, host_ip, place_of), family, force)
        made.text(version)  # which says what it lacks
        return made

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
        made = replace(cls.from_text(text_of(made, made.format), "the table"), name="")
        made.check(family)
        faults = [] if force else training_faults(servers, _product(family))
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
            family: The product, as in `Device.family`, or a name such as 910B3, A2 or A3; None if
                it is not known.
            environ: The environment of the ranks; None for one in which nothing is set.

        Raises:
            JobError: If there is no product of that name.
        """
        return sort_findings([*self.remarks, *check_rules(self, _product(family), environ)])

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
            JobError: If there are `problems`, with all of them.
        """
        found = self.problems(family, environ)
        if found:
            raise refusal(self.name or "The rank table", found)

    def text(self, version: Optional[str] = None) -> str:
        """The table as JSON.

        Args:
            version: ``1.0`` or ``1.2``; that of the table, if it has one of them, or 1.0.

        Raises:
            JobError: If HCCL would refuse the table, other than because it is at "initializing",
                or if it has not what version 1.2 needs.
        """
        self._refuse_errors(but="status")
        return text_of(self, version or (V1_2 if self.format == V1_2 else V1_0))

    def write(self, path: str, version: Optional[str] = None, *, force: bool = False) -> None:
        """Writes a file that is at no time there in part.

        Args:
            path: Its name, which has to end in ``.json``.
            version: As in `text`.
            force: Whether a file that is there may be replaced.

        Raises:
            JobError: If the file is there already or cannot be written, or as from `text`.
        """
        write_text(os.fspath(path), self.text(version), force)

    def _refuse_errors(self, but: str = "") -> None:
        """As `check`, without what the file's name or text has of its own."""
        wrong = [one for one in check_rules(self) if one.severity == ERROR and one.place != but]
        if wrong:
            raise refusal(self.name or "The rank table", wrong)

    @classmethod
    def _of_text(
        cls, text: str, name: str, remarks: List[TableFinding], family: Optional[str] = None
    ) -> "RankTable":
        reading = read(name, text, reads_super_pods(_product(family)))
        found, says = reading.found.as_tuple(), reading.contents
        if says.status == INITIALIZING:
            found = ()
        elif reading.found.refused:
            more = check_rules(says, _product(family), complete=reading.complete)
            found = tuple(sort_findings([*found, *remarks, *more]))
            raise refusal(name, found)
        return cls(says.format, says.status, says.servers, name, (*found, *remarks))


def _product(family: Optional[str]) -> Optional[str]:
    """The family of a product's name.

    Raises:
        JobError: If there is no product of that name.
    """
    found = None if family is None else named_family(family)
    if family is not None and found is None:
        raise JobError(
            f"{family!r} is no product that is known.", hint="Write 910A, A2, A3, A5 or 310P."
        )
    return found


def _of_name(path: str) -> List[TableFinding]:
    fault = name_fault(path)
    hint, source = "Rename it: hccl.json, for example.", "launch_facts A2 rule 12"
    return [TableFinding(ERROR, "", fault, hint, source)] if fault else []

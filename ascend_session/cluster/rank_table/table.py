"""`RankTable`, which reads, builds, checks and writes rank tables."""

import os
import time
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union, cast

from ascend_session.cluster.rank_table.build import (
    Addresses,
    build_from_devices,
    build_from_lists,
    find_training_faults,
    format_table,
    number_ranks,
)
from ascend_session.cluster.rank_table.contents import (
    COMPLETED,
    INITIALIZING,
    V1_0,
    V1_2,
    Contents,
    TableServer,
)
from ascend_session.cluster.rank_table.formats import parse_table
from ascend_session.cluster.rank_table.rules import (
    check_rules,
    drop_consequences,
    make_finding,
    rate_backups,
    refuse_table,
    tidy_findings,
)
from ascend_session.cluster.rank_table.table_file import (
    Tell,
    WaitProgress,
    find_name_fault,
    find_target_fault,
    look_for_table,
    read_text,
)
from ascend_session.errors import JobError
from ascend_session.files import write_file
from ascend_session.findings import ERROR, WARNING, Finding, errors_of, sort_by_severity
from ascend_session.hardware.device_report import Device, DeviceReport, common_family, devices
from ascend_session.hardware.families import parse_family
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.npu_smi import NpuSmi
from ascend_session.spelling import option
from ascend_session.vendor import A3

_PAUSE_S = 1.0  # between two reads of a table, as HCCL

_Item = TypeVar("_Item")

Servers = Union[Mapping[str, Mapping[int, Addresses]], Sequence[TableServer]]


@dataclass(frozen=True)
class RankTable(Contents):
    """A rank table of HCCL: the device of each rank of a job (guides/rank_tables.md)."""

    @classmethod
    def read(cls, path: str, family: Optional[str] = None) -> "RankTable":
        """Read a file of version 1.0 or 1.2.

        The fields are checked, but not how they fit together: `check` does that. Of a table at
        "initializing" only the fields that are there are read.

        Args:
            path: The file.
            family: The product, as in `findings`; None if it is not known. Where HCCL does not read
                superpods, faults in them are warnings.

        Raises:
            JobError: If it cannot be read, is no rank table, or has wrong fields; lists all faults.
        """
        path = os.fspath(path)
        return cls._parse(read_text(path), path, _check_name(path), family)

    @classmethod
    def from_text(
        cls, text: str, name: str = "the rank table", family: Optional[str] = None
    ) -> "RankTable":
        """Parse the text of a table, which messages call ``name``; otherwise as `read`."""
        return cls._parse(text, name, [], family)

    @classmethod
    def wait_for(
        cls,
        path: str,
        seconds: float,
        tell: Optional[Tell] = None,
        family: Optional[str] = None,
    ) -> "RankTable":
        """Wait until another program completes a table, then read it.

        Args:
            path: The file; it may be missing or incomplete at first.
            seconds: The timeout. The file is read at once, and then each second.
            tell: Called each second with what is missing and the seconds left.
            family: The product, as in `read`.

        Raises:
            JobError: If it is not completed in time, or as from `read`; at once if it can never be
                a table, such as a folder.
        """
        path = os.fspath(path)
        if not isinstance(cast(Any, seconds), Real) or not seconds >= 0:  # NaN is neither
            raise JobError(f"seconds must be a number, 0 or more, not {seconds!r}.")
        end = time.monotonic() + seconds
        while True:
            text, why = look_for_table(path)
            if text is not None:
                return cls._parse(text, path, _check_name(path), family)
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                raise JobError(
                    f"{path}: {why}, and {seconds:g} s have passed.",
                    hint="Check the job's controller, which should fill it in. HCCL would wait "
                    "1800 s for it in silence.",
                )
            if tell is not None:
                tell(WaitProgress(remaining_s, why))
            time.sleep(min(_PAUSE_S, remaining_s))

    @classmethod
    def build(
        cls, servers: Servers, *, family: Optional[str] = None, force: bool = False
    ) -> "RankTable":
        """Build a table of devices, which get ranks in the order given.

        Args:
            servers: ``{server_id: {physical id: address}}``, where an address is a str, a list of
                str, or None if it is not known; or `TableServer` objects, whose devices get new
                ranks, server by server.
            family: The product, for its rules; None if it is not known.
            force: On the Atlas training series, accept devices in two rings or without addresses,
                which HCCL takes and the manual does not.

        Raises:
            JobError: If HCCL would refuse the table.
        """
        if isinstance(servers, Mapping):
            return cls._build(build_from_lists(servers), family, force)
        listed = _list_items("servers", servers, TableServer)
        return cls._build(number_ranks(listed), family, force)

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
        """Build a table of the devices that this process gets, in the order of their logical ids.

        Args:
            report: The result of `ascend_session.devices`, or a list of some of its devices; None
                calls it.
            server_id: Name of this server; None means the hostname.
            host_ip: Address of this server; None leaves it out.
            version: ``1.0``; or ``1.2``, which asks ``npu-smi`` for the superpod of each device
                (A3).
            force: As in `build`.

        Raises:
            JobError: If there is no device, HCCL would refuse the table, or ``npu-smi`` does not
                know what version 1.2 needs.
        """
        report = devices() if report is None else report
        used = report.visible if isinstance(report, DeviceReport) else report
        used = _list_items("report", used, Device)
        family = common_family(used)
        npu_smi = NpuSmi(os.environ, host_root(os.environ)) if version == V1_2 else None
        servers = build_from_devices(used, server_id, host_ip, npu_smi)
        table = cls._build(servers, family, force, os.environ)
        table.text(version)  # raises if something is missing for this version
        return table

    @classmethod
    def merge(cls, tables: Sequence["RankTable"], *, family: Optional[str] = None) -> "RankTable":
        """Merge the tables of several servers into one, with ranks in the order of the tables.

        Raises:
            JobError: If two tables name the same server, one is not completed, or HCCL would
                refuse the result.
        """
        tables = _list_items("tables", tables, RankTable)
        if not tables:
            raise JobError("There are no rank tables to merge.")
        for table in tables:
            table._refuse_errors()
        owners: Dict[str, str] = {}
        servers: List[TableServer] = []
        for number, table in enumerate(tables, 1):
            name = table.name or f"table {number}"
            by_rank = sorted(table.servers, key=lambda each: min(d.rank_id for d in each.devices))
            for server in by_rank:
                if server.server_id in owners:
                    raise JobError(
                        f"{owners[server.server_id]} and {name} both have a server "
                        f"{server.server_id!r}, and nothing says whether it is the same one.",
                        hint="Make one of them again with another --server-id.",
                    )
                owners[server.server_id] = name
                servers.append(server)
        version = V1_2 if all(table.format == V1_2 for table in tables) else V1_0
        merged = cls(version, COMPLETED, number_ranks(servers))
        merged.check(family or (A3 if version == V1_2 else None))
        return merged

    @classmethod
    def _build(
        cls,
        servers: Tuple[TableServer, ...],
        family: Optional[str],
        force: bool,
        environ: Optional[Mapping[str, str]] = None,
    ) -> "RankTable":
        with_pods = bool(servers) and all(server.super_pod_id for server in servers)
        table = cls(V1_2 if with_pods else V1_0, COMPLETED, servers)
        table = replace(cls.from_text(format_table(table, table.format), "the table"), name="")
        table.check(family or (A3 if with_pods else None), environ)
        faults = [] if force else find_training_faults(servers, _find_product(family))
        if faults:
            raise JobError("\n".join(faults), hint=f"Give {option('force')} to make it anyway.")
        return table

    def problems(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> List[Finding]:
        """List the errors among the `findings`."""
        return errors_of(self.findings(family, environ))

    def findings(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> List[Finding]:
        """Check the table by all rules, and list all findings, errors first.

        Args:
            family: The product, as in `Device.family` or a name such as 910B3, A2 or A3; None if
                it is not known.
            environ: The environment of the ranks; None for an empty one.

        Raises:
            JobError: If there is no product of that name.
        """
        product = _find_product(family)
        remarks = rate_backups(self.remarks, product, environ or {})
        return sort_by_severity([*remarks, *check_rules(self, product, environ)])

    def check(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> None:
        """Raise one error for all `problems`, if there are any.

        Raises:
            JobError: If HCCL would refuse the table.
        """
        problems = self.problems(family, environ)
        if problems:
            raise refuse_table(self.name or "The rank table", problems)

    def text(self, version: Optional[str] = None) -> str:
        """Format the table as JSON.

        Args:
            version: ``1.0`` or ``1.2``; None means 1.2 for a table of 1.2, and 1.0 for others.

        Raises:
            JobError: If HCCL would refuse the table (except for the status "initializing"), or if
                it lacks what version 1.2 needs.
        """
        version = version or (V1_2 if self.format == V1_2 else V1_0)
        text = format_table(self, version)
        # Parsed again, so that names and addresses are checked as HCCL will read them.
        written = self.from_text(text, self.name or "the table")
        written._refuse_errors(A3 if version == V1_2 else None, but="status")
        return text

    def write(self, path: str, version: Optional[str] = None, *, force: bool = False) -> None:
        """Write the table to a file atomically, because HCCL fails at once on half a table.

        A link is followed, permissions are kept, and a failure leaves nothing behind.

        Args:
            path: The file; its name has to end in ``.json``.
            version: As in `text`.
            force: Whether to replace an existing file.

        Raises:
            JobError: If the file exists already or cannot be written, or as from `text`.
        """
        text, path = self.text(version), os.fspath(path)
        fault = find_name_fault(path) or find_target_fault(path)
        if fault:
            raise JobError(f"{path}: {fault}", hint="Name it hccl.json, for example.")
        write_file(path, text.encode(), force=force, error=JobError)

    def _refuse_errors(self, family: Optional[str] = None, but: str = "") -> None:
        """Raise as `check`, but without errors at the place ``but`` and about the file's text."""
        findings = errors_of(check_rules(self, family))
        errors = [finding for finding in findings if finding.place != but]
        if errors:
            raise refuse_table(self.name or "The rank table", errors)

    @classmethod
    def _parse(
        cls, text: str, name: str, remarks: List[Finding], family: Optional[str] = None
    ) -> "RankTable":
        product = _find_product(family)
        contents = parse_table(name, text, product)
        findings = tidy_findings(contents.remarks)
        if contents.status == INITIALIZING:
            findings = []
        elif errors_of(findings):
            more = drop_consequences(check_rules(contents, product), findings)
            raise refuse_table(name, sort_by_severity([*findings, *remarks, *more]))
        findings += remarks
        return cls(contents.format, contents.status, contents.servers, name, tuple(findings))


def _find_product(name: Optional[str]) -> Optional[str]:
    """Return the family of a product; raise JobError if there is no product of this name."""
    family = parse_family(name) if isinstance(name, str) else None
    if name is not None and family is None:
        raise JobError(f"{name!r} is not a known product.", hint="Write 910A, A2, A3, A5 or 310P.")
    return family


def _check_name(path: str) -> List[Finding]:
    faults = ((ERROR, find_name_fault(path)), (WARNING, find_target_fault(path)))
    hint = "Rename it: hccl.json, for example."
    return [
        make_finding(severity, "file name", "", fault, hint) for severity, fault in faults if fault
    ]


def _list_items(argument: str, values: Any, kind: Type[_Item]) -> List[_Item]:
    """List the items of an argument; raise JobError if they are not all of this ``kind``."""
    refusal = JobError(f"{argument} takes a list of {kind.__name__}, not {values!r}.")
    try:
        items = list(values)
    except TypeError as error:
        raise refusal from error
    if not all(isinstance(item, kind) for item in items):
        raise refusal
    return items

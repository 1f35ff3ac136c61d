"""What ``ascend-session ranktable check`` and ``show`` say."""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import typer

from ascend_session.cli._countdown import Countdown
from ascend_session.cli._output import show_facts, show_table
from ascend_session.cluster.rank_table import RankTable, TableDevice
from ascend_session.cluster.rank_table.contents import TEMPLATE_2, V1_0, V1_2
from ascend_session.cluster.rank_table.formats import parse_table
from ascend_session.cluster.rank_table.source import read_text
from ascend_session.errors import JobError
from ascend_session.findings import ERROR, INFO, NOT_CHECKED, WARNING, Finding, sort_by_severity
from ascend_session.text import printable

if TYPE_CHECKING:
    from ascend_session.hardware.devices import DeviceReport

__all__ = ["TableReport", "as_dict", "family_of", "lines", "look", "show_ranks"]

_LABELS = {ERROR: "", WARNING: "warning: ", NOT_CHECKED: "not checked: ", INFO: "note: "}
_ALWAYS = 4  # columns that each table has


class TableReport(NamedTuple):
    """What a file holds: a table, or what refuses it.

    Attributes:
        file: Its name, as it was given.
        format: Which format it is; empty if it is none.
        table: The table; None if it could not be read.
        product: The product whose rules were looked at; None if it is not known.
        findings: What there is to say, errors first.
    """

    file: str
    format: str
    table: Optional[RankTable]
    product: Optional[str]
    findings: Tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing refuses the table."""
        return not any(one.severity == ERROR for one in self.findings)

    def to_dict(self) -> Dict[str, Any]:
        """The report as JSON can hold it."""
        return {
            "file": self.file,
            "ok": self.ok,
            "format": self.format or None,
            "status": self.table.status if self.table else None,
            "size": self.table.size if self.table else None,
            "product": self.product,
            "findings": [
                {
                    "severity": one.severity,
                    "place": one.place or "",
                    "said": one.message,
                    "hint": one.hint,
                    "source": one.source,
                }
                for one in self.findings
            ],
        }


def family_of(name: Optional[str]) -> Optional[str]:
    """The family of a product's name.

    Raises:
        typer.BadParameter: If there is no product of that name.
    """
    from ascend_session.hardware.families import named_family

    found = None if name is None else named_family(name)
    if name is not None and found is None:
        raise typer.BadParameter(
            f"{name!r} is no product that is known: 910A, A2, A3, 310P.", param_hint="--product"
        )
    return found


def look(file: str, family: Optional[str], with_host: bool, seconds: float) -> TableReport:
    """Reads and checks a table; a wrong one is reported, never raised."""
    try:
        table = _waited_for(file, seconds, family) if seconds else RankTable.read(file, family)
    except JobError as error:
        here = _family_here() if error.findings and with_host and family is None else None
        if here is not None:  # on some products HCCL reads less of a table
            return look(file, here, with_host, 0.0)
        if error.findings:
            return TableReport(file, _format_of(file), None, family, error.findings)
        message = error.message[len(file) + 2 :] if error.message.startswith(f"{file}: ") else None
        said = Finding(ERROR, message or error.message, error.hint, place="")
        return TableReport(file, "", None, family, (said,))
    on_host: List[Finding] = []
    if with_host:
        family = _compare(table, family, on_host)
    found = [*table.findings(family, os.environ), *on_host]
    return TableReport(file, table.format, table, family, tuple(sort_by_severity(found)))


def _format_of(file: str) -> str:
    """Which format a table has that is refused."""
    try:
        return parse_table(file, read_text(file)).contents.format
    except JobError:
        return ""


def lines(report: TableReport) -> Iterator[str]:
    """What `check` says of a table."""
    said = [_words(report.format)] if report.format else []
    if report.table is not None:
        said += [_count(len(report.table.servers), "server"), _count(report.table.size, "rank")]
    counts = [
        _count(sum(one.severity == severity for one in report.findings), word)
        for severity, word in ((ERROR, "problem"), (WARNING, "warning"))
        if any(one.severity == severity for one in report.findings)
    ]
    state = ["ok"] if report.ok else []
    yield f"{report.file}: {', '.join([*said, *state, *counts])}"
    for one in report.findings:
        yield f"  {_LABELS[one.severity]}{one._replace(hint=None)}"
        if one.hint is not None:
            yield f"    hint: {one.hint}"


def show_ranks(table: RankTable) -> None:
    """Prints the table: what it is, and a line for each rank."""
    show_facts([("file", table.name), ("format", _words(table.format)), ("status", table.status)])
    pods = {server.server_id: server.super_pod_id or "-" for server in table.servers}
    columns: List[Tuple[str, Callable[[TableDevice], Optional[object]]]] = [
        ("RANK", lambda one: one.rank_id),
        ("SERVER", lambda one: one.server_id),
        ("DEVICE", lambda one: one.device_id),
        ("ADDRESS", lambda one: ",".join(one.device_ip)),
        ("PORT", lambda one: one.device_port),
        ("HOST", lambda one: one.host_ip),
        ("POD", lambda one: one.pod_name),
        ("SUPERPOD", lambda one: pods[one.server_id] if one.super_device_id else None),
        ("SDID", lambda one: one.super_device_id),
    ]
    used = [
        (head, cell)
        for number, (head, cell) in enumerate(columns)
        if number < _ALWAYS or any(cell(one) is not None for one in table.devices)
    ]
    rows = [[_cell(cell(one)) for _, cell in used] for one in table.devices]
    typer.echo()
    show_table([head for head, _ in used], rows)


def as_dict(table: RankTable) -> Dict[str, Any]:
    """A table as JSON can hold it, the same for all formats."""
    servers = [
        {**server._asdict(), "devices": [one._asdict() for one in server.devices]}
        for server in table.servers
    ]
    return {
        "file": table.name,
        "format": table.format,
        "status": table.status,
        "size": table.size,
        "servers": servers,
    }


def _words(kind: str) -> str:
    if kind in (V1_0, V1_2):
        return f"version {kind}"
    return kind if kind == TEMPLATE_2 else f'the old "{kind}" format'


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _cell(value: Optional[object]) -> str:
    return "-" if value in (None, "") else printable(str(value))


def _compare(table: RankTable, family: Optional[str], found: List[Finding]) -> Optional[str]:
    """Adds what this host has to say; returns the product, now that its devices are known."""
    from ascend_session.hardware.devices import devices

    report = devices()
    found += table.host_findings(report)
    return _family_of(report) if family is None else family


def _family_here() -> Optional[str]:
    from ascend_session.hardware.devices import devices

    return _family_of(devices())


def _family_of(report: "DeviceReport") -> Optional[str]:
    families = {device.family for device in report.visible if device.family}
    return families.pop() if len(families) == 1 else None


def _waited_for(file: str, seconds: float, family: Optional[str]) -> RankTable:
    with Countdown(file) as countdown:
        return RankTable.wait_for(file, seconds, countdown.tell, family)

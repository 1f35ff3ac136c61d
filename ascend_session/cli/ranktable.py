"""``ascend-session ranktable``: makes, checks, converts and shows rank tables."""

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import (
    complain,
    exit_on_error,
    finding_as_dict,
    in_command,
    show_facts,
    show_finding,
    show_json,
    show_table,
    show_verdict,
)
from ascend_session.cli._parameters import (
    DEVICES,
    FILE,
    FORCE,
    JSON,
    OPTIONS,
    CommandGroup,
    argument,
    parse_duration,
)
from ascend_session.errors import DeviceError, JobError
from ascend_session.findings import ERROR, INFO, WARNING, Finding, sort_by_severity
from ascend_session.text import (
    format_count,
    format_duration,
    join_words,
    label_ranks,
    printable,
)

if TYPE_CHECKING:
    from ascend_session.cluster.rank_table import RankTable, TableDevice, TableServer
    from ascend_session.cluster.rank_table.table_file import WaitProgress
    from ascend_session.hardware.device_report import Device

_KEYS = ("severity", "place", "said", "hint", "source")  # of findings in JSON
_ALWAYS = 4  # columns that each table has
_PROGRESS_EACH_S = 60.0  # between lines about a wait, where they stay
_COLUMNS = 80  # of a terminal with an unknown width
_CLEAR_LINE = "\r\x1b[K"


def _check_version(context: Any, parameter: Any, value: Optional[str]) -> Optional[str]:
    if value not in (None, "1.0", "1.2"):
        raise click.BadParameter(f"{value} is neither 1.0 nor 1.2.")
    return value


_OUTPUT = OPTIONS.value("-o --output", "FILE", "Write the table to FILE instead of printing it.")

_HELP = """Make, check, convert and show rank tables.

Examples:
    ascend-session ranktable make -o hccl.json
    ascend-session ranktable check hccl.json
"""

ranktable = CommandGroup(name="ranktable", help=_HELP)


@ranktable.command("make")
@argument("files", "[FILES]...")
@OPTIONS.flag("--merge", "Merge FILES; ranks follow the order in which they are named.")
@OPTIONS.value(
    "--server servers",
    "NAME=DEVICES",
    "A server that need not be this host, with physical ids and addresses, as in "
    "node-a=0:10.1.0.1,1:10.1.0.2; can be repeated.",
    multiple=True,
)
@OPTIONS.value(
    "--product", "NAME", "Product of these servers, for its rules: 910A, A2, A3 or 310P."
)
@DEVICES
@OPTIONS.value("--server-id", "NAME", "Name of this server.  [default: the host name]")
@OPTIONS.value("--host-ip", "ADDRESS", "Address of this server.")
@OPTIONS.value(
    "--to",
    "VERSION",
    "1.0, or 1.2 for superpods of A3.  [default: 1.0, or that of FILES]",
    callback=_check_version,
)
@_OUTPUT
@OPTIONS.flag("--force", "Replace FILE; take devices that the manual advises against.")
def make(
    files: Tuple[str, ...],
    merge: bool,
    servers: Tuple[str, ...],
    product: Optional[str],
    devices: Optional[str],
    server_id: Optional[str],
    host_ip: Optional[str],
    to: Optional[str],
    output: Optional[str],
    force: bool,
) -> None:
    """Make a rank table of this host's devices or of servers that are given, or merge tables.

    For several servers, make a table on each of them, then merge all tables on one; or name all
    devices and their addresses, on any machine.

    Examples:
        ascend-session ranktable make -o hccl.json
        ascend-session ranktable make --merge a.json b.json -o hccl.json
    """
    from ascend_session.cluster.rank_table import RankTable

    flags = {"--devices": devices, "--server-id": server_id, "--host-ip": host_ip}
    given = [flag for flag, value in flags.items() if value is not None]
    other = "--merge" if merge else "--server" if servers else ""
    if other and given:
        raise click.BadParameter(f"cannot be combined with {other}.", param_hint=given[0])
    if merge and servers:
        raise click.BadParameter("cannot be combined with --merge.", param_hint="--server")
    if merge and not files:
        raise click.BadParameter("needs the names of the tables to merge.", param_hint="--merge")
    if files and not merge:
        raise click.BadParameter("to merge tables, add --merge.", param_hint=files[0])
    if product is not None and not other:
        message = "needs --server or --merge; the product of this host is known."
        raise click.BadParameter(message, param_hint="--product")
    family = _parse_product(product)
    listed = [_parse_server(text) for text in servers]
    with exit_on_error():
        if merge:
            table = RankTable.merge([RankTable.read(name) for name in files], family=family)
        elif servers:
            table = RankTable.build(listed, family=family, force=force)
        else:
            table = RankTable.of_host(
                _choose_devices(devices),
                server_id=server_id,
                host_ip=host_ip,
                version=to or "1.0",
                force=force,
            )
            bare = [str(device.device_id) for device in table.devices if not device.device_ip]
            if bare:
                complain(
                    f"The address of device {', '.join(bare)} is unknown; a job on several "
                    "servers needs it.",
                    severity=INFO,
                )
        _write(table, to, output, force)
        if other:
            _show_findings(table, family)
            _show_order(table, files)


@ranktable.command("check")
@FILE
@OPTIONS.flag("--no-host", "Do not compare the table with this host.")
@OPTIONS.value(
    "--wait",
    "TIME",
    "Wait up to this long, such as 10m, until the table is completed.",
    type=parse_duration,
)
@OPTIONS.value("--product", "NAME", "Rules to apply: 910A, A2, A3 or 310P.  [default: this host's]")
@JSON
def check(
    file: str, no_host: bool, wait: Optional[float], product: Optional[str], as_json: bool
) -> None:
    """Check a rank table by HCCL's rules, and against this host.

    Exit code: 1 if the table has errors, otherwise 0. Warnings do not count.

    Examples:
        ascend-session ranktable check hccl.json
        ascend-session ranktable check --no-host --product A2 --wait 10m hccl.json
    """
    family = _parse_product(product)
    wait_s = wait or 0.0
    report = _report_table(file, family, not no_host, wait_s)
    if as_json:
        show_json(report.as_dict())
    else:
        _show_report(report)
    raise Exit(0 if report.ok else 1)


@ranktable.command("convert")
@argument("old", "OLD")
@_OUTPUT
@OPTIONS.value(
    "--to", "VERSION", "1.0 or 1.2.", default="1.0", show_default=True, callback=_check_version
)
@FORCE
def convert(old: str, output: Optional[str], to: str, force: bool) -> None:
    """Convert a rank table of version 1.0 or 1.2 to the other.

    The status of the table OLD must be "completed".

    Examples:
        ascend-session ranktable convert old.json -o hccl.json
        ascend-session ranktable convert --to 1.2 old.json -o hccl.json
    """
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import COMPLETED

    with exit_on_error():
        table = RankTable.read(old)
        if table.status != COMPLETED:
            raise JobError(
                f"{old} is not complete yet: its status is {table.status!r}, not {COMPLETED!r}.",
                hint="Wait for it with `ascend-session ranktable check --wait 10m`.",
            )
        _write(table, to, output, force)


@ranktable.command("show")
@FILE
@JSON
def show(file: str, as_json: bool) -> None:
    """Show which rank has which device on which server.

    Examples:
        ascend-session ranktable show hccl.json
        ascend-session ranktable show --json hccl.json
    """
    from ascend_session.cluster.rank_table import RankTable

    try:
        table = RankTable.read(file)
    except JobError as error:
        if as_json:
            show_json(_refuse(file, error, None).as_dict())
        else:
            complain(error.message, error.hint, ERROR)
        raise Exit(1) from None
    if as_json:
        servers = [
            {**server._asdict(), "devices": [device._asdict() for device in server.devices]}
            for server in table.servers
        ]
        facts = {"format": table.format, "status": table.status, "size": table.size}
        show_json({"file": table.name, **facts, "servers": servers})
    else:
        _show_ranks(table)


def _parse_product(name: Optional[str]) -> Optional[str]:
    """Find the family of a product as it is typed; None if none is given."""
    from ascend_session.hardware.families import parse_family

    family = None if name is None else parse_family(name)
    if name is not None and family is None:
        message = f"{name!r} is not one of 910A, A2, A3, 310P."
        raise click.BadParameter(message, param_hint="--product")
    return family


def _parse_server(text: str) -> "TableServer":
    """Read a server and its devices as typed: ``node-a=0:10.1.0.1,1``, with or without addresses.

    Raises:
        click.BadParameter: If it is written in another way.
    """
    from ascend_session.cluster.rank_table import TableDevice, TableServer
    from ascend_session.ids import PhysicalDeviceId

    name, equals, listed = text.partition("=")
    devices = []
    for word in listed.split(",") if listed else ():
        number, _, address = word.strip().partition(":")
        if not re.fullmatch("[0-9]{1,4}", number):
            break
        addresses = (address,) if address else ()
        devices.append(TableDevice(0, PhysicalDeviceId(int(number)), name, addresses))
    else:
        if name and equals and devices:
            return TableServer(name, tuple(devices))
    raise click.BadParameter(
        f"{text!r} is not a server; write its name, physical ids of devices and their addresses, "
        "as in node-a=0:10.1.0.1,1:10.1.0.2.",
        param_hint="--server",
    )


def _show_findings(table: "RankTable", family: Optional[str]) -> None:
    """Report findings about a table that HCCL accepts."""
    from ascend_session.cluster.rank_table.contents import V1_2
    from ascend_session.vendor import A3

    for finding in table.findings(family or (A3 if table.format == V1_2 else None)):
        place = f"{finding.place}: " if finding.place else ""
        complain(f"{place}{finding.message}", finding.hint, finding.severity)


def _show_order(table: "RankTable", files: Sequence[str]) -> None:
    """Report which ranks each server has; ranks follow the order of what was given."""
    ranks = []
    for server in table.servers:
        ids = [device.rank_id for device in server.devices]
        ranks.append(f"{printable(server.server_id)} has {label_ranks(ids)}")
    given = f"the files: {files[0]} comes first" if files else "the servers as given"
    complain(f"Ranks follow the order of {given}. {join_words(ranks)}.", severity=INFO)


def _choose_devices(devices: Optional[str]) -> "Tuple[Device, ...]":
    """Return the devices of this host by their logical ids; all that are visible for None.

    Raises:
        DeviceError: If a device that is named is not there.
    """
    from ascend_session.hardware.device_report import devices as list_devices
    from ascend_session.launcher.plan.devices import parse_devices

    report = list_devices()
    visible = report.visible
    if not visible and report.devices:  # that no process here can open
        for note in report.notes:
            complain(note, severity=WARNING)
    if not visible or devices is None:
        return visible
    try:
        ids = [int(number) for number in parse_devices(devices)]
    except DeviceError as error:
        raise click.BadParameter(
            f"{in_command(error.message)} {in_command(error.hint or '')}"
        ) from None
    if max(ids) >= len(visible):
        raise DeviceError(
            f"There is no device {max(ids)}: this process gets 0 to {len(visible) - 1}.",
            hint="`ascend-session devices` lists them.",
        )
    return tuple(visible[number] for number in ids)


def _write(table: "RankTable", version: Optional[str], output: Optional[str], force: bool) -> None:
    if output is None:
        click.echo(table.text(version), nl=False)
        return
    table.write(output, version, force=force)
    servers = format_count(len(table.servers), "server")
    complain(f"{output}: {format_count(table.size, 'rank')} on {servers}.")


class TableReport(NamedTuple):
    """A table read from a file, or the errors in it."""

    file: str  # as it was typed
    format: str  # empty if it has none
    table: "Optional[RankTable]"  # None if it could not be read
    product: Optional[str]  # whose rules were checked; None if it is not known
    findings: Tuple[Finding, ...]  # errors first

    @property
    def ok(self) -> bool:
        """True if nothing refuses the table."""
        return not any(finding.severity == ERROR for finding in self.findings)

    def as_dict(self) -> Dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "file": self.file,
            "ok": self.ok,
            "format": self.format or None,
            "status": self.table.status if self.table else None,
            "size": self.table.size if self.table else None,
            "product": self.product,
            "findings": [finding_as_dict(finding, _KEYS) for finding in self.findings],
        }


def _report_table(file: str, family: Optional[str], with_host: bool, wait_s: float) -> TableReport:
    """Read and check a table; a wrong one is reported, never raised."""
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.host import check_host, find_host_names
    from ascend_session.hardware.device_report import common_family
    from ascend_session.hardware.device_report import devices as list_devices

    devices = list_devices() if with_host else None
    if devices is not None and family is None:
        family = common_family(devices.visible)
    try:
        if wait_s:
            with _WaitDisplay(file) as display:
                table = RankTable.wait_for(file, wait_s, display.show, family)
        else:
            table = RankTable.read(file, family)
    except JobError as error:
        return _refuse(file, error, family)
    on_host = [] if devices is None else check_host(table, devices, find_host_names())
    findings = [*table.findings(family, os.environ), *on_host]
    return TableReport(file, table.format, table, family, tuple(sort_by_severity(findings)))


def _refuse(file: str, error: JobError, family: Optional[str]) -> TableReport:
    """Report what a file was refused for, and which format it has nevertheless."""
    from ascend_session.cluster.rank_table.formats import parse_table
    from ascend_session.cluster.rank_table.table_file import read_text

    if not error.findings:
        message = re.sub(rf"^{re.escape(file)}: ", "", error.message)
        return TableReport(file, "", None, family, (Finding(ERROR, message, error.hint),))
    table_format = ""
    with contextlib.suppress(JobError):
        table_format = parse_table(file, read_text(file)).format
    return TableReport(file, table_format, None, family, error.findings)


class _WaitDisplay:
    """The progress of a wait: one changing line on a terminal, or some lines in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._is_terminal = sys.stderr.isatty()
        self._why, self._remaining_s = "", 0.0

    def __enter__(self) -> "_WaitDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal and self._why:
            click.echo(_CLEAR_LINE, nl=False, err=True)

    def show(self, progress: "WaitProgress") -> None:
        """Draw the line, or where lines stay, one each minute and when something changes."""
        line = f"{format_duration(progress.left)} left, waiting for {self._file}: {progress.why}"
        if self._is_terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
            click.echo(f"{_CLEAR_LINE}{line[: columns - 1]}", nl=False, err=True)
        elif progress.why != self._why or self._remaining_s - progress.left >= _PROGRESS_EACH_S:
            click.echo(f"ascend-session: {line}", err=True)
            self._remaining_s = progress.left
        self._why = progress.why


def _show_report(report: TableReport) -> None:
    words = [f"version {report.format}"] if report.format else []
    if report.table is not None:
        words.append(format_count(len(report.table.servers), "server"))
        words.append(format_count(report.table.size, "rank"))
        words += ["ok"] if report.ok else []
    elif report.ok:
        words.append("not checked")
    show_verdict(report.file, report.findings, words)
    for finding in report.findings:
        # A message about invalid JSON begins with its place, because it is raised elsewhere, too.
        within = re.match(rf"({re.escape(report.file)}:\d+:\d+): ", finding.message)
        if within is None:
            show_finding(finding, report.file)
        else:
            show_finding(finding._replace(message=finding.message[within.end() :]), within[1])


def _show_ranks(table: "RankTable") -> None:
    form = f"version {table.format}"
    show_facts([("file", table.name), ("format", form), ("status", table.status)])
    pods = {server.server_id: server.super_pod_id or "-" for server in table.servers}
    columns: List[Tuple[str, Callable[[TableDevice], Optional[object]]]] = [
        ("RANK", lambda device: device.rank_id),
        ("SERVER", lambda device: device.server_id),
        ("DEVICE", lambda device: device.device_id),
        ("ADDRESS", lambda device: ",".join(device.device_ip)),
        ("PORT", lambda device: device.device_port),
        ("HOST", lambda device: device.host_ip),
        ("SUPERPOD", lambda device: pods[device.server_id] if device.super_device_id else None),
        ("SDID", lambda device: device.super_device_id),
    ]
    used = [
        (head, cell)
        for number, (head, cell) in enumerate(columns)
        if number < _ALWAYS or any(cell(device) is not None for device in table.devices)
    ]
    rows = [
        ["-" if value in (None, "") else printable(str(value)) for value in values]
        for values in ([cell(device) for _, cell in used] for device in table.devices)
    ]
    click.echo()
    show_table([head for head, _ in used], rows)

"""``ascend-session ranktable``: makes, checks, converts and shows rank tables."""

from typing import TYPE_CHECKING, Any, List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._durations import parse_duration
from ascend_session.cli._groups import group, help_without_command
from ascend_session.cli._output import complain, show_json
from ascend_session.errors import AscendError, JobError

if TYPE_CHECKING:
    from ascend_session.cluster.rank_table import RankTable

__all__ = ["app"]


def _version(value: Optional[str]) -> Optional[str]:
    if value not in (None, "1.0", "1.2"):
        raise typer.BadParameter(f"{value} is not 1.0 or 1.2, the versions that are written.")
    return value


# Hidden from the list of arguments, where typer 0.19 writes "\\[required]"; the usage names them.
_File = Annotated[str, typer.Argument(hidden=True)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_Output = Annotated[
    Optional[str],
    typer.Option("--output", "-o", metavar="FILE", help="Write it to FILE instead of printing it."),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")]
_Product = Annotated[
    Optional[str],
    typer.Option(
        metavar="NAME",
        help="Go by the rules of 910A, A2, A3 or 310P; those of this host's devices if not given.",
    ),
]
_MakeTo = Annotated[
    Optional[str],
    typer.Option(
        "--to",
        metavar="VERSION",
        callback=_version,
        help="1.0, or 1.2 for A3 with superpods; 1.0 if not given, or what FILES have.",
    ),
]
_MakeForce = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace FILE if it is there; take devices the manual advises against."
    ),
]

app = group(help="Make, check, convert and show rank tables.")
app.callback()(help_without_command)


@app.command()
def make(
    files: Annotated[Optional[List[str]], typer.Argument(hidden=True)] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Make one table of FILES, each that of one server.")
    ] = False,
    devices: Annotated[
        Optional[str],
        typer.Option(metavar="LIST", help="Logical ids, as in 0-3,6; all that are visible if not."),
    ] = None,
    server_id: Annotated[
        Optional[str],
        typer.Option(metavar="NAME", help="This server's name; that of the host if not given."),
    ] = None,
    host_ip: Annotated[
        Optional[str], typer.Option(metavar="ADDRESS", help="This server's address.")
    ] = None,
    to: _MakeTo = None,
    output: _Output = None,
    force: _MakeForce = False,
) -> None:
    """Make a table of this host's devices, or with --merge one of several.

    On each server: make -o a.json. Then, on one of them: make --merge a.json b.json -o hccl.json.
    """
    from ascend_session.cli._ranktable_making import made_of_host, made_of_tables

    own = {"--devices": devices, "--server-id": server_id, "--host-ip": host_ip}
    _check_call(merge, files or [], [flag for flag, value in own.items() if value is not None])
    try:
        if merge:
            table = made_of_tables(files or [])
        else:
            table = made_of_host(devices, server_id, host_ip, to, force)
        _give(table, to, output, force)
    except AscendError as error:
        raise _failed(error) from None


@app.command()
def check(
    file: _File,
    no_host: Annotated[
        bool, typer.Option("--no-host", help="Do not compare the table with this host.")
    ] = False,
    wait: Annotated[
        Optional[str],
        typer.Option(metavar="TIME", help="Wait so long, as in 10m, until it is completed."),
    ] = None,
    product: _Product = None,
    as_json: _Json = False,
) -> None:
    """Check a table by HCCL's rules, and against this host; exit code 1 if it is wrong.

    Warnings are printed and do not make a table wrong.
    """
    from ascend_session.cli._ranktable_report import family_of, lines, look

    family = family_of(product)
    seconds = 0.0 if wait is None else parse_duration(wait)
    report = look(file, family, not no_host, seconds)
    if as_json:
        show_json(report.to_dict())
    else:
        typer.echo("\n".join(lines(report)))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def convert(
    old: _File,
    output: _Output = None,
    to: Annotated[
        str, typer.Option("--to", metavar="VERSION", callback=_version, help="1.0 or 1.2.")
    ] = "1.0",
    force: _Force = False,
) -> None:
    """Write a table of any format as version 1.0 or 1.2; it has to be completed."""
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import COMPLETED

    try:
        table = RankTable.read(old)
        if table.status != COMPLETED:
            raise JobError(
                f"{old}: its status is {table.status!r}, not {COMPLETED!r}: what is not there yet "
                "would be missing in the new table.",
                hint="`ascend-session ranktable check --wait 10m` waits for it in sight.",
            )
        if table.format == "template 2":
            complain(
                "note: its ranks are those that HCCL gives them, by server_id and device_id. Where "
                "processes found themselves by POD_NAME, they now need RANK_ID."
            )
        _give(table, to, output, force)
    except AscendError as error:
        raise _failed(error) from None


@app.command()
def show(file: _File, as_json: _Json = False) -> None:
    """Print what a table says: which rank has which device, where."""
    from ascend_session.cli._ranktable_report import as_dict, show_ranks
    from ascend_session.cluster.rank_table import RankTable

    try:
        table = RankTable.read(file)
    except AscendError as error:
        raise _failed(error) from None
    if as_json:
        show_json(as_dict(table))
    else:
        show_ranks(table)


def _check_call(merge: bool, files: List[str], own: List[str]) -> None:
    """Refuses tables where this host is to make one, and the other way round."""
    if merge and own:
        raise typer.BadParameter("it is for this host's own table.", param_hint=own[0])
    if merge and not files:
        raise typer.BadParameter("it needs the names of tables.", param_hint="--merge")
    if files and not merge:
        raise typer.BadParameter("tables are named with --merge only.", param_hint=files[0])


def _give(table: "RankTable", version: Optional[str], output: Optional[str], force: bool) -> None:
    if output is None:
        typer.echo(table.text(version), nl=False)
        return
    table.write(output, version, force=force)
    servers = len(table.servers)
    complain(
        f"{output}: {table.size} rank{'' if table.size == 1 else 's'} on {servers} "
        f"server{'' if servers == 1 else 's'}."
    )


def _failed(error: AscendError) -> Any:
    hint = error.hint and error.hint.replace("Give force", "Give --force")
    complain(error.message, hint)
    return typer.Exit(1)

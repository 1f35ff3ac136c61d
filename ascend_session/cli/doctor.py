"""``ascend-session doctor``: what this machine has for jobs, and what it lacks."""

import os
from typing import Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._durations import parse_some_time
from ascend_session.cli._ending import programs_ended_with_this
from ascend_session.cli._output import show_json

__all__ = ["doctor"]


_Text = Optional[str]
_Seconds = Optional[float]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_Table = Annotated[
    _Text, typer.Option(metavar="FILE", help="Compare a rank table with the devices.")
]
_LogDir = Annotated[
    _Text, typer.Option(metavar="FOLDER", help="Where logs would go; ascend-logs if not given.")
]
_Python = Annotated[
    _Text, typer.Option(metavar="PROGRAM", help="The Python that would run the ranks.")
]
_Timeout = Annotated[
    _Seconds,
    typer.Option(
        metavar="TIME",
        parser=parse_some_time,
        help="How long one answer of npu-smi or hccn_tool may take; 10s if not given.",
    ),
]
_Imports = Annotated[
    _Seconds,
    typer.Option(
        metavar="TIME",
        parser=parse_some_time,
        help="How long importing TensorFlow may take; 2m if not given.",
    ),
]


def doctor(
    as_json: _Json = False,
    rank_table: _Table = None,
    log_dir: _LogDir = None,
    python: _Python = None,
    timeout: _Timeout = None,
    imports: _Imports = None,
) -> None:
    """Look at what a job needs of this machine, and say what was found.

    Looked at are device nodes, health, holders, network, ports, versions, variables, TensorFlow and
    the adapter (in a process of its own), folders and limits. No device is initialised, so that
    nothing said here means that a job will work.

    Exit code 0 if nothing that was looked at is an error, 1 otherwise.
    """
    from ascend_session.cli._doctor import Request, examine

    request = Request(rank_table, log_dir, python)
    if timeout is not None:
        request = request._replace(timeout=timeout)
    if imports is not None:
        request = request._replace(imports=imports)
    with programs_ended_with_this():
        report = examine(os.environ, request)
    if as_json:
        show_json(report.as_dict())
    else:
        from ascend_session.cli._doctor_report import show

        show(report)
    raise typer.Exit(0 if report.ok else 1)

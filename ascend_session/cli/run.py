"""``ascend-session run``: a script for the vendor's packages, with a device or without."""

import os
import subprocess
import sys
from typing import Dict, List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._groups import ScriptCommand, group
from ascend_session.cli._output import complain
from ascend_session.errors import AscendError

__all__ = ["app"]

_What = Annotated[str, typer.Argument(metavar="SCRIPT", hidden=True)]
_Arguments = Annotated[Optional[List[str]], typer.Argument(metavar="ARGS", hidden=True)]
_Backend = Annotated[Optional[str], typer.Option(metavar="NAME", help="auto, npu or stub.")]
_Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a Python module.")]
_Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Refuse, too, what the adapter ignores without a word (stub only)."
    ),
]
_Json = Annotated[
    Optional[str], typer.Option("--json", metavar="FILE", help="Write the report to FILE, too.")
]

app = group()


# What follows the script is the script's own.
@app.command("run", cls=ScriptCommand, context_settings={"allow_interspersed_args": False})
def run(
    what: _What,
    arguments: _Arguments = None,
    backend: _Backend = None,
    as_module: _Module = False,
    strict: _Strict = False,
    json_file: _Json = None,
) -> None:
    """Run a script that is written for npu_bridge, unchanged, as Python runs it.

    Without a device, npu_bridge and hccl are this package's: the script runs on the CPU, the
    options of each of its sessions are checked as the adapter checks them, and a report at the
    end says what became of them. With a device the vendor's packages are left alone, and what the
    script leaves open is closed in order, whatever ends it.

    SCRIPT is a Python script; with -m it is a module. What follows it belongs to it, options too.
    The exit code is the script's.
    """
    from ascend_session.launcher.rank_main import RUN_VARIABLE

    environ = dict(os.environ)
    try:
        environ[RUN_VARIABLE] = _asked(backend, json_file, environ)
    except AscendError as error:
        complain(error.message, error.hint)
        raise typer.Exit(2) from None
    if strict:
        from ascend_session.compat.sessions import STRICT_VARIABLE

        environ[STRICT_VARIABLE] = "1"
    if backend in ("npu", "stub"):
        environ["ASCEND_SESSION_BACKEND"] = backend
    from ascend_session.launcher.rank_main import RUNNER

    # A script called -m would be taken for a module.
    shown = os.path.join(os.curdir, what) if what.startswith("-") else what
    words = ["-m", what] if as_module else [shown]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(sys.executable, [sys.executable, *flags, RUNNER, *words, *(arguments or [])], environ)


def _asked(backend: Optional[str], json_file: Optional[str], environ: Dict[str, str]) -> str:
    """What the runner is told: lines ``name=value``.

    Raises:
        BackendError: If ``backend`` is none.
    """
    from ascend_session.backends import choose

    choice = choose(backend or "auto", environ)
    said = {
        "backend": choice.name,
        "reason": choice.reason,
        "drawer": "ascend_session.cli._run_view",
    }
    if json_file is not None:
        said["json"] = os.path.abspath(json_file)
    return "\n".join(f"{name}={value}" for name, value in said.items())

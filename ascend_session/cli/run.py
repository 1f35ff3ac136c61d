"""``ascend-session run``: a script for the vendor's packages, with a device or without."""

import json
import os
import subprocess
import sys
from typing import Optional, Tuple

from ascend_session.cli._output import exit_on_error
from ascend_session.cli._parameters import (
    ARGUMENTS,
    BACKEND,
    MODULE,
    OPTIONS,
    RECORD,
    SCRIPT,
    SET,
    ScriptCommand,
    command,
)


@command("run", cls=ScriptCommand)
@SCRIPT
@ARGUMENTS
@BACKEND
@MODULE
@SET
@RECORD
@OPTIONS.flag("--strict", "Also refuse options with a warning, such as ignored ones (stub only).")
@OPTIONS.flag("--print-config", "Print each session's AscendConfig (stub only).")
@OPTIONS.value("--json json_file", "FILE", "Also write the report to FILE.")
def run(
    what: str,
    arguments: Tuple[str, ...],
    backend: Optional[str],
    as_module: bool,
    record: Optional[str],
    strict: bool,
    print_config: bool,
    json_file: Optional[str],
    **typed: Tuple[str, ...],
) -> None:
    """Run a script written for npu_bridge, unchanged.

    Without a device, the script runs on the CPU: this package provides npu_bridge and hccl, checks
    the options of each session as the vendor's adapter does, and reports at the end what became
    of them. With a device, the script uses the vendor's packages; sessions that it leaves open are
    closed before the device is shut down.

    SCRIPT is a Python script, or a module (-m). Arguments after SCRIPT are passed on to it. The
    exit code is the script's.

    Examples:
        ascend-session run train.py --epochs 1
        ascend-session run --strict --json report.json -m my_package.train
    """
    from ascend_session.backends import BACKEND_VARIABLE, backend_class, choose
    from ascend_session.cluster.records import clear_records, read_rank
    from ascend_session.compat.finder import PRINT_VARIABLE, STRICT_VARIABLE, RunRequest
    from ascend_session.config.overlay import parse_settings, read_overlay
    from ascend_session.errors import JobError
    from ascend_session.witness import (
        RECORD_VARIABLE,
        RUN_VARIABLE,
        SET_VARIABLE,
        STARTUP,
        put_first,
    )

    environ = dict(os.environ)
    with exit_on_error(2):
        choice = choose(backend or "auto", environ)
        if not as_module and not os.path.exists(what):
            raise JobError(
                f"There is no script {os.path.abspath(what)}.",
                hint="Give the path of a Python script. For a shell script, use "
                "`ascend-session launch -n 1 --no-python bash SCRIPT`.",
            )
        overlay = parse_settings(typed["set"]) or read_overlay(environ)
        if record is not None:
            record = os.path.abspath(record)
            clear_records(record, [read_rank(environ)])
    request = RunRequest(
        backend_class(choice.name).replaces_vendor,
        choice.reason,
        "" if json_file is None else os.path.abspath(json_file),
    )
    environ[RUN_VARIABLE] = request.to_text()
    if overlay:
        environ[SET_VARIABLE] = json.dumps(overlay)
    if record is not None:
        environ[RECORD_VARIABLE] = record
    if strict:
        environ[STRICT_VARIABLE] = "1"
    if print_config:
        environ[PRINT_VARIABLE] = "1"
    if backend is not None and backend != "auto":
        environ[BACKEND_VARIABLE] = backend
    # A script called -m would be taken for a module.
    path = os.path.join(os.curdir, what) if what.startswith("-") else what
    words = ["-m", what] if as_module else [path]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    # With one of these, Python would not load the sitecustomize that watches the script.
    flags = [flag for flag in flags if flag not in ("-I", "-E", "-S")]
    environ["PYTHONPATH"] = put_first(STARTUP, environ.get("PYTHONPATH"))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(sys.executable, [sys.executable, *flags, *words, *arguments], environ)

"""What is looked at, in which order."""

import os
import platform
import sys
from typing import List, Mapping, NamedTuple, Optional, Tuple

from ascend_session import __version__
from ascend_session.backends import choose
from ascend_session.checks.environment import check_hccl_variables, check_job_variables
from ascend_session.checks.finding import ERROR, Finding
from ascend_session.checks.folders import FOLDER, check_folder
from ascend_session.checks.interpreter import Interpreter, check_interpreter, look_into
from ascend_session.checks.limits import check_limits
from ascend_session.checks.stub_servers import check_stub_servers
from ascend_session.checks.tables import read_table
from ascend_session.doctor.on_devices import on_devices, without_devices
from ascend_session.doctor.report import Report
from ascend_session.errors import BackendError
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.nodes import host_root, processor_nodes
from ascend_session.hardware.survey import survey
from ascend_session.hardware.versions import Component, Versions

__all__ = ["Asked", "examine"]

_IMPORTS = 120.0  # seconds; TensorFlow alone takes twenty on a slow disk
_ALL_ANSWERS = 60.0  # seconds for all that hccn_tool is asked
_LOGS = "ascend-logs"
_UNKNOWN = "-"


class Asked(NamedTuple):
    """What to look at besides this machine.

    Attributes:
        rank_table: A rank table to compare with the devices; None for none.
        log_dir: Where logs would go; None means ``ascend-logs`` in the working directory.
        python: The Python that would run the ranks; None means this one.
        timeout: Seconds that one answer of ``npu-smi`` or ``hccn_tool`` may take.
        imports: Seconds that Python may take to import TensorFlow and the adapter.
    """

    rank_table: Optional[str] = None
    log_dir: Optional[str] = None
    python: Optional[str] = None
    timeout: float = TIME_LIMIT
    imports: float = _IMPORTS


def examine(environ: Mapping[str, str], asked: Asked = Asked()) -> Report:  # noqa: B008
    """Looks at everything; runs ``npu-smi``, ``hccn_tool`` and a Python, and starts no job.

    Args:
        environ: The environment to go by.
        asked: What to look at besides.
    """
    root = host_root(environ)
    backend, reason, found = _backend(environ)
    total = max(_ALL_ANSWERS, asked.timeout)
    tool = HccnTool(environ, root, asked.timeout, total)
    report = survey(environ, root, asked.timeout, tool=tool)
    versions = Versions(report.driver, report.firmware, report.toolkits, ())
    has_devices = bool(processor_nodes(root)) or bool(report.devices)
    if has_devices or backend == "npu":
        found += on_devices(environ, root, report, asked.rank_table, tool)
    else:
        found += without_devices(environ, root, report)
        if asked.rank_table is not None:
            found += read_table(asked.rank_table, None, environ).findings
    python = asked.python or sys.executable or "python3"
    on_npu = backend == "npu"
    seen = look_into(python, environ, on_npu, asked.imports)
    found += check_interpreter(seen, on_npu)
    families = {device.family for device in report}
    product = families.pop() if len(families) == 1 else None
    found += [*check_job_variables(environ), *check_hccl_variables(environ, product)]
    found += [*_logs(asked.log_dir), *check_limits()]
    if backend == "stub":
        found += check_stub_servers()
    return Report(backend, reason, _facts(versions, seen, len(report)), tuple(found))


def _backend(environ: Mapping[str, str]) -> Tuple[str, str, List[Finding]]:
    try:
        choice = choose("auto", environ)
    except BackendError as refused:
        return (
            "unknown",
            refused.message,
            [Finding("backend", ERROR, refused.message, refused.hint)],
        )
    return choice.name, choice.reason, []


def _logs(asked: Optional[str]) -> List[Finding]:
    try:
        folder = os.path.abspath(asked or _LOGS)
    except FileNotFoundError:
        said = "The folder in which this was started is not there any more."
        return [Finding(FOLDER, ERROR, said, "Go to another one.")]
    return list(check_folder(folder))


def _facts(versions: Versions, seen: Interpreter, devices: int) -> Tuple[Tuple[str, str], ...]:
    toolkit = versions.toolkits[0] if versions.toolkits else None
    return (
        ("ascend_session", __version__),
        ("machine", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("devices", str(devices)),
        ("driver", _version(versions.driver)),
        ("firmware", _version(versions.firmware)),
        ("toolkit", _version(toolkit)),
        ("python", f"{seen.python or _UNKNOWN} ({seen.program})"),
        ("tensorflow", seen.found.get("tensorflow") or _UNKNOWN),
        ("npu_bridge", _adapter(seen)),
    )


def _version(found: Optional[Component]) -> str:
    return _UNKNOWN if found is None else found.version


def _adapter(seen: Interpreter) -> str:
    if "npu_bridge" not in seen.found:
        return _UNKNOWN
    return seen.found["npu_bridge"] or "of an unknown version"

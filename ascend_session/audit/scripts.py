"""Run the audit: find the scripts, apply all rules, collect the findings."""

import os
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.audit.report import AuditReport, merge_findings
from ascend_session.audit.shell import check_shell, is_job_script
from ascend_session.audit.syntax import Script, is_marked, read_file, read_script
from ascend_session.errors import AuditError
from ascend_session.findings import ERROR, INFO, Finding, Place
from ascend_session.text import format_count


class Audited(NamedTuple):
    """The result for one file.

    Attributes:
        file: Its name.
        looked_at: Whether it uses the adapter or starts ranks.
        findings: The findings in it.
        skipped: Why it was not read, in a full sentence; None if it was read.
    """

    file: str
    looked_at: bool
    findings: Tuple[Finding, ...]
    skipped: Optional[str] = None


def audit_file(file: str) -> Audited:
    """Audit one file; faults of the file itself are reported, never raised."""
    try:
        return audit_bytes(file, read_file(file))
    except AuditError as error:
        return Audited(file, False, (), error.message)
    except Exception as error:  # an unexpected error in one script must not end the audit
        reason = f"It could not be followed: {type(error).__name__}, {error}."
        return Audited(file, True, (), reason)


_HAS_NUL = "It could not be read: it has NUL bytes, as a file in UTF-16 does. Save it as UTF-8."


def audit_bytes(file: str, data: bytes) -> Audited:
    """Audit the content of a file."""
    is_shell = file.endswith((".sh", ".bash"))
    if b"\0" in data and file.endswith(_ENDINGS):
        # Neither Python nor a shell reads it, and no mark is found in UTF-16.
        place = Place(1, 1, None, file)
        return Audited(file, True, (Finding(ERROR, _HAS_NUL, None, "not-read", place=place),))
    if not (is_job_script(data) if is_shell else is_marked(data)):
        return Audited(file, False, ())
    try:
        if is_shell:
            return Audited(file, True, tuple(merge_findings(check_shell(file, data))))
        return Audited(file, True, tuple(_check_script(read_script(file, data))))
    except AuditError as error:
        reason = str(error)
    except RecursionError:
        reason = "It is nested too deeply to be followed."
    place = Place(1, 1, None, file)
    return Audited(file, True, (Finding(ERROR, reason, rule="not-read", place=place),))


def _check_script(script: Script) -> List[Finding]:
    # The configuration's definitions take a while to load, which a folder without scripts of this
    # kind need not wait for.
    from ascend_session.audit.engine import Engine
    from ascend_session.audit.loops import check_loops
    from ascend_session.audit.option_rules import (
        check_arguments,
        check_arguments_together,
        check_options_together,
    )
    from ascend_session.audit.package_api import check_package_api
    from ascend_session.audit.rules import (
        check_adapter,
        check_calls,
        check_entry,
        check_inference,
        check_proto,
        check_savers,
        check_systems,
        select_adapter_entries,
    )

    built = Engine(script)
    findings: List[Finding] = []
    entries = list(select_adapter_entries(built.entries, script))
    for entry in entries:
        findings += check_entry(entry, script)
        findings += check_options_together(entry)
    meant = {id(entry) for entry in entries}
    for proto in built.protos:
        ours = [entry for entry in proto.entries if id(entry) in meant]
        findings += check_proto(proto, ours, script) if ours else ()
    for call in built.run_configs:
        findings += check_arguments(call)
        findings += check_arguments_together(call)
    findings += check_systems(script)
    findings += check_adapter(script)
    findings += check_calls(script)
    findings += check_loops(entries, built.run_configs, script)
    findings += check_savers(script)
    findings += check_inference(entries, script)
    findings += check_package_api(script)
    unread = [
        Finding(INFO, reason, rule="not-read", place=place) for place, reason in script.unread
    ]
    return [*merge_findings(findings), *unread]


_ENDINGS = (".py", ".ipynb", ".sh", ".bash")
_SKIPPED_FOLDERS = ("__pycache__", "node_modules", "site-packages", ".ipynb_checkpoints")


def files_below(paths: Sequence[str]) -> List[str]:
    """List the scripts and notebooks among ``paths`` and in their folders, each once, in order.

    A file that ``paths`` names is listed whatever its suffix is. Hidden folders and installed
    packages are left out, and links to folders are not followed.

    Raises:
        FileNotFoundError: If a path is not there.
    """
    files: Dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            files.update(dict.fromkeys(_walk(path)))
        elif os.path.exists(path):
            files[path] = None
        else:
            raise FileNotFoundError(path)
    return list(files)


def _walk(folder: str) -> Iterator[str]:
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS
        )
        for name in sorted(names):
            if name.endswith(_ENDINGS):
                yield os.path.join(above, name)


def audit_paths(
    paths: Sequence[str], on_progress: Optional[Callable[[int], None]] = None
) -> AuditReport:
    """Audit scripts, notebooks and folders.

    Args:
        paths: Their names.
        on_progress: Called after each file with the number of all files.

    Raises:
        FileNotFoundError: If a path is not there.
    """
    files = files_below(paths)
    results: List[Audited] = []
    for audited in map(audit_file, files):
        if audited.looked_at or audited.skipped:
            results.append(audited)
        if on_progress is not None:
            on_progress(len(files))
    findings = [finding for audited in results for finding in audited.findings]
    return AuditReport(
        files=len(files),
        looked_at=sum(audited.looked_at for audited in results),
        findings=tuple(_say_once("fixed-job-id", findings)),
        skipped=tuple((each.file, each.skipped) for each in results if each.skipped is not None),
    )


def _say_once(rule: str, findings: List[Finding]) -> Iterator[Finding]:
    """Keep the first finding of a rule, with the number of the others."""
    others = sum(finding.rule == rule for finding in findings) - 1
    is_first = True
    for finding in findings:
        if finding.rule != rule:
            yield finding
        elif is_first:
            is_first = False
            more = f" Also in {format_count(others, 'other place')}." if others else ""
            yield finding._replace(message=finding.message + more)

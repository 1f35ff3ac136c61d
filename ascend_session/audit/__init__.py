"""Reads existing scripts, without running them, and says which of their options do nothing."""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.audit.fixes import (
        FixedScript,
        fix_script,
        port_script,
    )
    from ascend_session.audit.report import (
        AUDIT_RULES,
        AUDIT_SEVERITIES,
        AuditReport,
        as_sarif,
        place_of,
        read_baseline,
        without_known,
        write_baseline,
    )
    from ascend_session.audit.scripts import (
        Audited,
        audit_bytes,
        audit_file,
        audit_paths,
        files_below,
    )
    from ascend_session.audit.source import read_file

_HOMES = {
    "AUDIT_RULES": "report",
    "AUDIT_SEVERITIES": "report",
    "AuditReport": "report",
    "Audited": "scripts",
    "FixedScript": "fixes",
    "as_sarif": "report",
    "audit_bytes": "scripts",
    "audit_file": "scripts",
    "audit_paths": "scripts",
    "files_below": "scripts",
    "fix_script": "fixes",
    "place_of": "report",
    "port_script": "fixes",
    "read_baseline": "report",
    "read_file": "source",
    "without_known": "report",
    "write_baseline": "report",
}

__all__ = [
    "AUDIT_RULES",
    "AUDIT_SEVERITIES",
    "AuditReport",
    "Audited",
    "FixedScript",
    "as_sarif",
    "audit_bytes",
    "audit_file",
    "audit_paths",
    "files_below",
    "fix_script",
    "place_of",
    "port_script",
    "read_baseline",
    "read_file",
    "without_known",
    "write_baseline",
]

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())

"""Reads existing scripts, without running them, and says which of their options do nothing."""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.audit.fixes import (
        FixedScript,
        fix_script,
    )
    from ascend_session.audit.report import (
        AUDIT_RULES,
        AUDIT_SEVERITIES,
        AuditReport,
        place_of,
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
    "audit_bytes": "scripts",
    "audit_file": "scripts",
    "audit_paths": "scripts",
    "files_below": "scripts",
    "fix_script": "fixes",
    "place_of": "report",
    "read_file": "source",
}

__all__ = [
    "AUDIT_RULES",
    "AUDIT_SEVERITIES",
    "AuditReport",
    "Audited",
    "FixedScript",
    "audit_bytes",
    "audit_file",
    "audit_paths",
    "files_below",
    "fix_script",
    "place_of",
    "read_file",
]

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())

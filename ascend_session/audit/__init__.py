"""Reads existing scripts, without running them, and says which of their options do nothing."""

from ascend_session.audit.report import AUDIT_RULES, AUDIT_SEVERITIES, AuditReport
from ascend_session.audit.scripts import Audited, audit_bytes, audit_file

__all__ = [
    "AUDIT_RULES",
    "AUDIT_SEVERITIES",
    "AuditReport",
    "Audited",
    "audit_bytes",
    "audit_file",
]

"""Reads existing scripts, without running them, and says which of their options do nothing."""

from ascend_session.audit.finding import RULES, SEVERITIES, AuditFinding
from ascend_session.audit.scripts import Audited, audit_bytes, audit_file
from ascend_session.findings import Place

__all__ = [
    "RULES",
    "SEVERITIES",
    "AuditFinding",
    "Audited",
    "Place",
    "audit_bytes",
    "audit_file",
]

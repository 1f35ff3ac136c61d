"""What this machine has for jobs and what it lacks; says what was looked at, starts no job."""

from ascend_session.doctor.examining import Asked as Asked
from ascend_session.doctor.examining import examine as examine
from ascend_session.doctor.report import Report as Report

__all__ = ["Asked", "Report", "examine"]

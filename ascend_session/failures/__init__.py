"""Known failures of the device, its driver and its libraries: what they mean and what to do.

``classify`` finds them in a text, ``root_cause`` picks the one to act upon, ``translate`` makes an
error of this package out of a foreign exception, ``explain`` tells the user of a foreign one what
it means, and a ``RetryPolicy`` says whether another attempt can help. The table is in
``failures.rows``.
"""

from ascend_session.failures.cause import root_cause
from ascend_session.failures.classes import Condition, FailureClass, Role
from ascend_session.failures.definition import Alternative, Code, Definition, Failure, Position
from ascend_session.failures.retrying import RetryPolicy
from ascend_session.failures.rows import ROWS
from ascend_session.failures.scanning import classify, classify_lines
from ascend_session.failures.translation import explain, failure_of, translate

__all__ = [
    "ROWS",
    "Alternative",
    "Code",
    "Condition",
    "Definition",
    "Failure",
    "FailureClass",
    "Position",
    "RetryPolicy",
    "Role",
    "classify",
    "classify_lines",
    "explain",
    "failure_of",
    "root_cause",
    "translate",
]

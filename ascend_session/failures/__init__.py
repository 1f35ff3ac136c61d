"""Known failures of the device, its driver and its libraries: what they mean and what to do.

``classify`` finds them in a text, ``root_cause`` picks the one to act upon, ``translate`` makes an
error of this package out of a foreign exception, ``explain`` tells the user of a foreign one what
it means, and a ``RetryPolicy`` says whether another attempt can help. An ``ErrorRecord`` is what a
rank has written of its own exception.
"""

from ascend_session.failures.failure import Definition, Failure, FailureClass, RetryPolicy
from ascend_session.failures.graph_error import describe_error, parse_graph_error
from ascend_session.failures.record import (
    STACK_SIGNAL,
    STACKS_NAME,
    ErrorRecord,
    read_record,
    read_stacks,
)
from ascend_session.failures.record_writer import write_record
from ascend_session.failures.scanner import classify, explain, failure_of, root_cause, translate
from ascend_session.failures.table import JOB_CANNOT_GO_ON, ROWS

__all__ = [
    "JOB_CANNOT_GO_ON",
    "ROWS",
    "STACKS_NAME",
    "STACK_SIGNAL",
    "Definition",
    "ErrorRecord",
    "Failure",
    "FailureClass",
    "RetryPolicy",
    "classify",
    "describe_error",
    "explain",
    "failure_of",
    "parse_graph_error",
    "read_record",
    "read_stacks",
    "root_cause",
    "translate",
    "write_record",
]

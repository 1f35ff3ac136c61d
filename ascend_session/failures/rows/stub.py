"""What the stub itself says: a job whose ranks exchange data, and cannot any more."""

import re
from typing import Optional, Tuple

from ascend_session.failures.classes import Condition, FailureClass
from ascend_session.failures.definition import Alternative, Definition, Message

__all__ = ["JOB_CANNOT_GO_ON", "ROWS", "lost_rank"]

_NAME = "The job cannot go on"

JOB_CANNOT_GO_ON = f"{_NAME}: "
"""Begins the sentence by which a rank on the stub says why others have ended its collectives.

The sentence stands in one line, in the text of the error that the rank's ``run`` raises.
"""

ROWS: Tuple[Definition, ...] = (
    Definition(
        messages=(Message(JOB_CANNOT_GO_ON, _NAME),),
        failure_class=FailureClass.SECONDARY,
        otherwise=Alternative(FailureClass.PERMANENT, Condition.NO_PRIMARY),
        advice=(
            "The ranks of this job need each other, and one did not do its part. Start all ranks "
            "with the same script, arguments and data, give each the same number of steps, and "
            "read what the rank that the sentence names has written."
        ),
        source="backends/exchange of this package",
    ),
)


def lost_rank(text: str) -> Optional[int]:
    """The rank that such a sentence names as the one which did not do its part, or the first."""
    match = re.search(rf"{JOB_CANNOT_GO_ON}ranks? ([0-9]{{1,7}})\b", text)
    return None if match is None else int(match[1])

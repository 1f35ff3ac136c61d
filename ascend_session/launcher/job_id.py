"""``JOB_ID``: one for each attempt, so that two jobs never share what the vendor names by it.

Source: options_notes.md, section b (letters, digits, ``-`` and ``_``; not all digits with a
leading 0; at most 128 characters). 363 public scripts set one themselves, mostly the constant 10087
(launch_facts.md, C).
"""

import os
import re
import time

from ascend_session.launcher.variables import LONGEST_ID

__all__ = ["job_id_fault", "new_job_id", "of_attempt"]

# So long may one be that is given, for a later attempt adds its number.
_LONGEST_GIVEN = LONGEST_ID - 8


def new_job_id() -> str:
    """A legal ``JOB_ID`` that begins with the local time and that no other launch has."""
    return f"job_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"


def of_attempt(given: str, attempt: int) -> str:
    """The ``JOB_ID`` of an attempt, from 1, at a job whose id the user gave."""
    return given if attempt == 1 else f"{given}_{attempt}"


def job_id_fault(text: str) -> str:
    """Why ``text`` is no ``JOB_ID``, as the end of a sentence; empty if it is one."""
    if not re.fullmatch("[A-Za-z0-9_-]+", text):
        return "has characters other than letters, digits, - and _"
    if re.fullmatch("0[0-9]*", text):
        return "is a number that begins with 0"
    if len(text) > _LONGEST_GIVEN:
        return f"has {len(text)} characters; it may have {_LONGEST_GIVEN}"
    return ""

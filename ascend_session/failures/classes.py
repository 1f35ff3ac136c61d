"""What kinds of failure there are, what may turn one kind into another, and what each leads to.

Source: launch_facts.md, section E (the head of the table and its last paragraph).
"""

from enum import Enum

__all__ = ["Condition", "FailureClass", "Role"]


class FailureClass(Enum):
    """What a failure asks for; the value is the word for reports."""

    TRANSIENT = "transient"
    """Retry: yes, in a new process, after the wait. Root cause: yes."""

    SECONDARY = "secondary"
    """Retry: no. Root cause: only if nothing else is known; another rank failed first."""

    PERMANENT = "permanent"
    """Retry: no, it fails the same way until something is changed. Root cause: yes."""

    HARDWARE = "hardware"
    """Retry: not on this device; an administrator has to look at it. Root cause: yes."""

    AMBIGUOUS = "ambiguous"
    """Retry: once, after a look at who holds the device. Root cause: if nothing is clearer."""


class Condition(Enum):
    """What can give a failure another class; the value says it in words."""

    HELD_BY_OTHERS = "another process holds the device"
    HELD_BY_ENDING_JOB = "the port is held by an earlier job of your own that is still ending"
    SHARED_BY_RANKS = "two ranks of this job use the same device"
    NO_PRIMARY = "no rank of the job reports a failure of its own"
    DEVICE_FAULTY = "npu-smi info shows another health than OK, or ECC errors, for the device"


class Role(Enum):
    """What a known text says about the failure that it belongs to."""

    CAUSE = "cause"
    """It says what failed."""

    STAGE = "stage"
    """It says in which step it failed; a code next to it says it better."""

    WRAPPER = "wrapper"
    """It says only that something failed; the lines around it say what."""

    NOTICE = "notice"
    """It is no failure, but explains one."""

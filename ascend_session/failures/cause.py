"""Which of several failures came first in the chain of causes."""

from typing import Iterable, Optional, Tuple

from ascend_session.failures.classes import FailureClass, Role
from ascend_session.failures.definition import Failure

__all__ = ["root_cause"]

_DEFINITE = (FailureClass.TRANSIENT, FailureClass.PERMANENT, FailureClass.HARDWARE)


def root_cause(failures: Iterable[Failure]) -> Optional[Failure]:
    """Picks the failure to act upon.

    In this order, and within each the first in the order given:

    1. a failure of its own: transient, permanent or hardware; an exact code before the stage it
       failed in, that before a code that comes with many causes (``507899``)
    2. an ambiguous failure
    3. a secondary one, that is another rank's fault
    4. a wrapper, which only says that something failed (``[GePlugin] Initialize ge failed``,
       ``E19999``, ``EE9999``, ``EZ9999``)

    Failures of several ranks may be given one after the other; a secondary one is then the result
    only if no rank reports anything else.

    Returns:
        One of the failures, or None if there is none among them.
    """
    found = [failure for failure in failures if failure.definition.role is not Role.NOTICE]
    return min(found, key=_rank) if found else None


def _rank(failure: Failure) -> Tuple[int, int]:
    definition = failure.definition
    if definition.role is Role.WRAPPER:
        return 3, 0
    if definition.failure_class in _DEFINITE:
        return 0, 2 if failure.vague else int(definition.role is Role.STAGE)
    secondary = definition.failure_class is FailureClass.SECONDARY
    return 2 if secondary else 1, int(definition.role is Role.STAGE)

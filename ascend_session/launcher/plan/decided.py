"""What all decisions on a launch start from, and how they are made.

A decision is a function that takes the `Request` and what was decided before; `plan.decide_job` has
their order. It returns a value, or a `Decided` with notes, and raises an AscendError that says why
the job cannot be started like this.
"""

import os
import re
from typing import (
    TYPE_CHECKING,
    Callable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
)

from ascend_session.errors import AscendError, JobError
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.text import format_count

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _P = ParamSpec("_P")

_T = TypeVar("_T")


class AssumedDevices(NamedTuple):
    """The devices of a server that is not this machine.

    Attributes:
        product: Their family, as in `ascend_session.hardware.families`.
        size: Their number; their physical ids are 0 to size - 1, and a process gets all.
    """

    product: str
    size: int

    @classmethod
    def parse(cls, text: str) -> "Optional[AssumedDevices]":
        """Read a product and a number of devices that it may have, as in ``A2:8``; else None."""
        name, _, number = text.partition(":")
        from ascend_session.hardware.families import most_devices, parse_family

        product = parse_family(name)
        if product is None or not re.fullmatch("[1-9][0-9]?", number):
            return None
        return cls(product, int(number)) if int(number) <= most_devices(product) else None

    def __str__(self) -> str:
        return f"{format_count(self.size, 'device')} of {self.product}"


class Request(NamedTuple):
    """What is asked for, from which all decisions on a launch start.

    Attributes:
        config: The options of the launch.
        environ: The launcher's environment.
        assumed: The devices of another machine that is planned for; None for this one.
    """

    config: LaunchConfig
    environ: Mapping[str, str]
    assumed: Optional[AssumedDevices] = None

    @property
    def job_environ(self) -> Mapping[str, str]:
        """The launcher's environment with what the user adds for the job."""
        return {**self.environ, **self.config.env}


Decided = Tuple[_T, Tuple[str, ...]]
"""What was decided, and what the user should know about it, in sentences."""


class Decisions:
    """Makes decisions one after the other, so that all that refuses a job comes at once.

    Attributes:
        notes: What the user should know, in sentences.
        problems: Why the job cannot be started, in the order in which a user would mend it.
    """

    def __init__(self) -> None:
        self.notes: List[str] = []
        self.problems: List[AscendError] = []

    def make(
        self, decide: "Callable[_P, _T]", *arguments: "_P.args", **named: "_P.kwargs"
    ) -> Optional[_T]:
        """Return what a function decides; None if it refuses the job."""
        try:
            return decide(*arguments, **named)
        except AscendError as problem:
            self.problems.append(problem)
            return None

    def make_noted(
        self, decide: "Callable[_P, Decided[_T]]", *arguments: "_P.args", **named: "_P.kwargs"
    ) -> Optional[_T]:
        """Return what a function with notes decides, and keep these; None if it refuses the job."""
        decided = self.make(decide, *arguments, **named)
        if decided is None:
            return None
        value, notes = decided
        self.notes += notes
        return value


def make_absolute(path: str) -> str:
    """Make a path absolute, which counts from the launcher's working directory.

    Raises:
        JobError: If that directory has been removed.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise JobError(
            "The working directory has been removed.",
            hint="Change to another one, and launch again.",
        ) from None

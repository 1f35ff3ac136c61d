"""What a decision on a launch comes to: a value, what the user should know, and what refuses it.

The functions ``decide_*`` take the `Request` and what was decided before; `plan.decide_job` has
their order. A class of the backend that is not known is None, a place among the nodes `Nodes()`,
and the devices of the ranks are empty.
"""

import functools
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Generic, Mapping, NamedTuple, Optional, Tuple, TypeVar, cast

from ascend_session.errors import AscendError, JobError
from ascend_session.hardware.families import most_devices, parse_family
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.text import format_count

_T = TypeVar("_T")
_Decide = TypeVar("_Decide", bound="Callable[..., Decided[Any]]")


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


@dataclass(frozen=True)
class Decided(Generic[_T]):
    """The outcome of one decision.

    Attributes:
        value: What was decided; None with problems, and if something before it is not decided.
        notes: What the user should know about it, in sentences.
        problems: Why the job cannot be started like this.
    """

    value: Optional[_T] = None
    notes: Tuple[str, ...] = ()
    problems: Tuple[AscendError, ...] = ()

    @property
    def required(self) -> _T:
        """The value, which is there where nothing refuses it.

        Raises:
            AscendError: What refuses it.
        """
        if self.value is None:
            raise self.problems[0]
        return self.value


UNDECIDED: Decided[Any] = Decided()
"""The outcome if something that it depends on was refused, which says why."""


def collect_problems(decide: _Decide) -> _Decide:
    """Have a function that decides return what it raises as a problem, so that all come at once."""

    @functools.wraps(decide)
    def decide_or_refuse(*arguments: Any, **named: Any) -> Decided[Any]:
        try:
            return decide(*arguments, **named)
        except AscendError as problem:
            return Decided(problems=(problem,))

    return cast(_Decide, decide_or_refuse)


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

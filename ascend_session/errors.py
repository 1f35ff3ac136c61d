"""Every error and warning of the package, and how a warning is issued.

The tree (in brackets the builtin that each class also derives from)::

    AscendError
    ├── ConfigError            [ValueError]       options that are wrong, alone or together
    ├── JobError               [ValueError]       environment or rank table is wrong
    ├── DeviceError            [ValueError]       a device id that is absent or given twice
    ├── LifecycleError         [RuntimeError]     a system or session used in the wrong order
    ├── BackendError           [RuntimeError]     the chosen backend cannot run here
    ├── InitializationError    [RuntimeError]     initialize_system failed
    ├── ShutdownError          [RuntimeError]     closing sessions or shutdown_system failed
    ├── FanOutError            [RuntimeError]     the work of one device among several failed
    ├── CollectiveError        [RuntimeError]     a collective failed, or a rank was lost
    ├── PreflightError         [RuntimeError]     a preflight check failed
    ├── ResultError            [ValueError]       an AOE result file contains no results
    ├── AuditError             [ValueError]       the audit cannot read or write a file
    ├── UnsupportedError       [NotImplementedError]  this backend does not do that
    ├── DeviceTimeoutError     [TimeoutError]     a device did not become free in time
    └── RanksTimeoutError      [TimeoutError]     the ranks of a test did not return in time

    AscendConfigWarning        [UserWarning]      an option does not do what it says
"""

import contextlib
import sys
import warnings
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ascend_session.findings import Finding
from ascend_session.spelling import as_message


class AscendError(Exception):
    """Base of all errors that this package raises on purpose.

    Attributes:
        message: The problem, in full sentences.
        hint: One thing to run or to change, or None.
        failure: The vendor's failure behind it (`failures.Failure`), or None.
        failure_class: The class of that failure (`failures.FailureClass`), or None.
    """

    failure: Any = None
    failure_class: Any = None

    def __init__(self, message: str, *, hint: Optional[str] = None) -> None:
        self.message = as_message(message)
        super().__init__(self.message)
        self.hint = None if hint is None else as_message(hint)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> Tuple[Any, ...]:
        # Exception.__reduce__ replays args only; keyword arguments travel in the state.
        return type(self), (self.message,), self.__dict__


class ConfigError(AscendError, ValueError):
    """Options that the adapter would abort on, refuse or silently misread; reports all at once.

    Attributes:
        problems: The findings, in the order of the options.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: Optional[str] = None,
        problems: Sequence[Finding] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems: Tuple[Finding, ...] = tuple(problems)

    @classmethod
    def from_problems(
        cls, problems: Sequence[Finding], where: str = "the configuration"
    ) -> "ConfigError":
        """Combine problems into one error; several are numbered below ``N problems in {where}``."""
        if len(problems) == 1:
            return cls(problems[0].message, hint=problems[0].hint, problems=problems)
        lines = [f"{len(problems)} problems in {where}:"]
        lines += [f"  {number}. {problem.template}" for number, problem in enumerate(problems, 1)]
        return cls("\n".join(lines), problems=problems)


class JobError(AscendError, ValueError):
    """The environment or rank table is wrong, or would make each rank train alone.

    Attributes:
        findings: All findings about the rank table, warnings included; empty without a table.
    """

    def __init__(
        self, message: str, *, hint: Optional[str] = None, findings: Sequence[Finding] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.findings: Tuple[Finding, ...] = tuple(findings)


class DeviceError(AscendError, ValueError):
    """A device id that does not exist here, is out of range or is given twice."""


class LifecycleError(AscendError, RuntimeError):
    """A system or session was opened, used or closed in the wrong order."""


class BackendError(AscendError, RuntimeError):
    """The chosen backend does not exist or cannot run on this machine."""


class InitializationError(AscendError, RuntimeError):
    """initialize_system failed; the device is closed."""


class ShutdownError(AscendError, RuntimeError):
    """Closing a session or shutdown_system failed; everything else is closed."""


class FanOutError(AscendError, RuntimeError):
    """At least one of the devices that a process drives at the same time failed.

    Attributes:
        device_id: Logical id of the first device in `failures`; None if there is none.
        phase: ``build``, ``start`` (opening the session and its first run), ``each`` or ``map``.
        failures: ``{device_id: exception}``, in the order in which the devices were given.
        results: ``{device_id: value}`` of ``each`` or ``map``, from the devices that succeeded.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: Optional[str] = None,
        phase: str = "",
        failures: Optional[Mapping[int, BaseException]] = None,
        results: Optional[Mapping[int, Any]] = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.phase = phase
        self.failures: Dict[int, BaseException] = dict(failures or {})
        self.results: Dict[int, Any] = dict(results or {})
        self.device_id: Optional[int] = next(iter(self.failures), None)


class CollectiveError(AscendError, RuntimeError):
    """The ranks of a job cannot run a collective together, or lost a rank in it."""


class PreflightError(AscendError, RuntimeError):
    """A preflight check failed; the job was not started, and nothing of it remains.

    Attributes:
        findings: Errors first, then warnings and checks that could not be made.
        is_wrong_call: True if the arguments have to change; False if only the host has to.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: Optional[str] = None,
        findings: Sequence[Finding] = (),
        is_wrong_call: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.findings: Tuple[Finding, ...] = tuple(findings)
        self.is_wrong_call = is_wrong_call


class ResultError(AscendError, ValueError):
    """An AOE result file cannot be read, or contains no results."""


class AuditError(AscendError, ValueError):
    """The audit cannot read or write a script or a file of known findings."""


class UnsupportedError(AscendError, NotImplementedError):
    """This backend or release does not support the request."""


class DeviceTimeoutError(AscendError, TimeoutError):
    """A device did not become free in the time given."""


class RanksTimeoutError(AscendError, TimeoutError):
    """The ranks of `testing.run_ranks` did not return in the time given."""


class AscendConfigWarning(UserWarning):
    """A value is accepted but does not do what it says, or is deprecated."""


def warn(message: str) -> None:
    """Issue an AscendConfigWarning at the first line outside this package."""
    inside = __name__.split(".")[0] + "."
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, AscendConfigWarning, stacklevel=level)
    flush_stderr()


def warn_at(line: Optional[Tuple[str, int]], message: str) -> None:
    """Issue an AscendConfigWarning at a line of the user's, where a library calls this package."""
    file, number = line or ("<unknown>", 1)
    warnings.warn_explicit(message, AscendConfigWarning, file, number)
    flush_stderr()


def write_stderr(text: str) -> None:
    """Write a text to stderr, at once, if there is one that is open."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def flush_stderr() -> None:
    """Write what stderr has buffered: Python 3.7 would lose it if the device aborts the process."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # it is closed, or there is none
        sys.stderr.flush()

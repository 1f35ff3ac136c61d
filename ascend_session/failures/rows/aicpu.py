"""Failures of the AI CPU and of the package that is loaded to it (E3 codes)."""

from typing import Tuple

from ascend_session.failures.classes import Condition, FailureClass
from ascend_session.failures.definition import Alternative, Code, Definition

__all__ = ["ROWS"]

ROWS: Tuple[Definition, ...] = (
    Definition(
        codes=(Code("E30003", "too many user processes on the device"),),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=10,
        advice=(
            "The device has as many user processes as it takes. Try again 10 seconds after the "
            "last job on it has ended."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("E39007", "a process on the device did not start in time"),),
        failure_class=FailureClass.AMBIGUOUS,
        advice=(
            "A process on the device started too slowly, or the connection between host and "
            "device is faulty. Try once more; if it comes back, keep the host and device logs "
            "and ask the vendor's support."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("E30006", "the operator package was not accepted by the device"),
            Code("E30004", "the program for the device is damaged"),
            Code("E30009", "the signature of a package was not accepted by the device"),
        ),
        failure_class=FailureClass.PERMANENT,
        otherwise=Alternative(FailureClass.HARDWARE, Condition.DEVICE_FAULTY),
        advice=(
            "The CANN package is damaged or does not fit, or the device's memory is. Install the "
            "operator package (OPP) that fits the driver. If it is in order, have an "
            "administrator check the device for ECC errors."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("E30005", "the device cannot be connected"),),
        failure_class=FailureClass.HARDWARE,
        advice=(
            "The host does not reach the device. An administrator has to restart the device; "
            "keep the host and device logs for the vendor's support."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("E30007", "the AI CPU scheduler was not added to its control group"),
            Code("E39004", "the AI CPU scheduler did not start properly"),
            Code("E39005", "the task daemon of the device did not start properly"),
            Code("E39006", "the operator package was not sent to the device"),
        ),
        failure_class=FailureClass.HARDWARE,
        advice=(
            "A system process of the device failed. Keep the host and device logs and ask the "
            "administrator or the vendor's support; use another device meanwhile."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("E30008", "an AI CPU operator took too long"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "An operator on the AI CPU took too long; with GetNext it is the data pipeline that "
            "is slow. Speed up the preprocessing (prefetch, fewer or smaller inputs), or shrink "
            "the shapes of the operator that is named."
        ),
        source="EC; TFA FAQ",
    ),
)

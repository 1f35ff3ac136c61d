"""Failures of the runtime (EE codes, aclError numbers), and the inner errors of all parts."""

from typing import Tuple

from ascend_session.failures.classes import Condition, FailureClass, Role
from ascend_session.failures.definition import Alternative, Code, Definition

__all__ = ["ROWS"]

ROWS: Tuple[Definition, ...] = (
    Definition(
        codes=(
            Code("207020", "the driver took too long"),
            Code("507051", "a message to the device could not be sent"),
            Code("507901", "the connection to the device was lost"),
        ),
        failure_class=FailureClass.AMBIGUOUS,
        advice=(
            "The connection between host and device is slow or broken. Try once more; if it "
            "comes back, have an administrator check the device."
        ),
        source="RTC; FD",
    ),
    Definition(
        codes=(Code("507033", "the device could not be set up"),),
        failure_class=FailureClass.AMBIGUOUS,
        advice=(
            "The device could not be opened. Seen when the operator package does not fit, when "
            "ASCEND_RT_VISIBLE_DEVICES is wrong, and when another process holds the device: "
            "check these, then try once more."
        ),
        source="RTC; vllm-ascend #4284",
    ),
    Definition(
        codes=(
            Code("EE1002", "a stream was not finished in time"),
            Code("507012", "the device did not report in time"),
            Code("507046", "a stream was not finished in time"),
            Code("507047", "an event was not reached in time"),
            Code("107020", "a task was not finished in time"),
        ),
        failure_class=FailureClass.SECONDARY,
        otherwise=Alternative(FailureClass.AMBIGUOUS, Condition.NO_PRIMARY),
        advice=(
            "The work on the device did not end in time. Look at the other ranks first; if none "
            "failed, check stream_sync_timeout, event_sync_timeout and the network."
        ),
        source="EC; RTC",
    ),
    Definition(
        codes=(Code("EE2002", "an environment variable has an invalid value"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "Correct the environment variable that the message names. For "
            "ASCEND_RT_VISIBLE_DEVICES: ids from 0, ascending, each once, commas and no spaces."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("EE1001", "an argument is invalid"),
            Code("EE1003", "a parameter has an invalid value"),
            Code("EE1004", "a pointer is missing"),
            Code("107001", "the device id is invalid"),
            Code("EL0002", "the device id is invalid"),
            Code("EL0003", "an argument of the driver is invalid"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The runtime was asked for a device that does not exist, or with another invalid "
            "argument. Check session_device_id, ASCEND_DEVICE_ID and ASCEND_RT_VISIBLE_DEVICES "
            "against 'npu-smi info'."
        ),
        source="EC; RTC",
    ),
    Definition(
        codes=(
            Code("EE1015", "the driver is too old"),
            Code("507008", "the processor is not the one the software is for"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice="Driver, CANN and processor do not fit together. Upgrade the driver and firmware.",
        source="EC; RTC",
    ),
    Definition(
        codes=(
            Code("507014", "AI Core operator took too long"),
            Code("507015", "AI Core operator failed"),
            Code("507017", "AI CPU operator took too long"),
            Code("507018", "AI CPU operator failed"),
            Code("507034", "vector core operator took too long"),
            Code("507035", "vector core operator failed"),
            Code("507048", "operator of a task group took too long"),
            Code("507049", "operator of a task group failed"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "An operator failed on the device, because of the operator or of the data it was "
            "given. The lines around name it; try it with smaller or other input, and look for "
            "NaN, indices out of range and shapes that change."
        ),
        source="RTC",
    ),
    Definition(
        codes=(
            Code("507010", "the device lost its heartbeat"),
            Code("507053", "device memory error"),
            Code("507054", "multi-bit ECC error in device memory"),
            Code("507055", "suspected device memory error"),
            Code("507056", "link error"),
            # Also seen with EL0005, where the device is only busy.
            Code("507899", "internal error of the driver", vague=True),
        ),
        failure_class=FailureClass.HARDWARE,
        advice=(
            "The device or its memory is faulty. Move the job to another device and have an "
            "administrator look at this one."
        ),
        source="RTC",
    ),
    Definition(
        codes=(
            Code("100002", "initialised twice"),
            Code("207015", "initialised twice"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The runtime was initialised twice. Initialise and shut down once in a process, and "
            "do not mix this with another library that does it too."
        ),
        source="RTC",
    ),
    Definition(
        codes=(
            Code("E19999", "inner error of the graph engine"),
            Code("EE9999", "inner error of the runtime"),
            Code("EH9999", "inner error of AscendCL"),
            Code("EI9999", "inner error of HCCL"),
            Code("EZ9999", "inner error of an operator"),
        ),
        failure_class=FailureClass.AMBIGUOUS,
        role=Role.WRAPPER,
        advice=(
            "This code only says that something failed inside. The lines below it and the "
            "process's own log (plog) say what; do not try again because of it alone."
        ),
        source="EC",
    ),
)

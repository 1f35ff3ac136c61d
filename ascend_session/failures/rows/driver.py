"""Failures of the driver and of what it shares out: devices, memory, streams (EL codes, dcmi)."""

from typing import Tuple

from ascend_session.failures.classes import Condition, FailureClass
from ascend_session.failures.definition import Alternative, Code, Definition, Message

__all__ = ["ROWS"]

_HELD = Alternative(FailureClass.TRANSIENT, Condition.HELD_BY_OTHERS)

ROWS: Tuple[Definition, ...] = (
    Definition(
        codes=(Code("EL0005", "the device is busy"),),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=60,
        advice=(
            "The device is in use, is being reset, or is not ready yet. End the processes that "
            "'npu-smi info' shows on it, wait a minute and try again."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("EL0006", "the device is out of resources"),
            Code("EL0008", "the device is out of events"),
            Code("EL0009", "the device is out of streams"),
            Code("EL0010", "the device is out of notify registers"),
            Code("EL0011", "the device is out of models"),
        ),
        failure_class=FailureClass.PERMANENT,
        otherwise=_HELD,
        wait_seconds=60,
        advice=(
            "The device has run out of events, streams, notify registers or models. If another "
            "process holds the device, close it and try again after a minute; if not, the job "
            "itself asks for too many (sessions, graphs or parallel streams)."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("207005", "a resource could not be allocated"),
            Code("207007", "no event is left"),
            Code("207008", "no stream is left"),
            Code("207009", "no notify register is left"),
            Code("207010", "no model is left"),
        ),
        messages=(
            Message(
                "halResourceIdAlloc",
                "halResourceIdAlloc failed",
                r"halResourceIdAlloc[^\n]{0,80}?fail",
            ),
        ),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=60,
        advice=(
            "The driver had no event, stream, notify register or model left, often because the "
            "previous job is still giving them back. Wait about a minute and start again in a "
            "new process."
        ),
        source="FD; RTC",
    ),
    Definition(
        messages=(
            Message("ret is -8020", "dcmi ret is -8020", r"ret is -8020(?![0-9])", near="dcmi"),
        ),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=60,
        advice=(
            "Another container holds the device. Wait until it has ended, or choose a device "
            "that no other container was given."
        ),
        source="issues",
    ),
    Definition(
        messages=(
            Message("ret is -8005", "dcmi ret is -8005", r"ret is -8005(?![0-9])", near="dcmi"),
        ),
        failure_class=FailureClass.AMBIGUOUS,
        advice=(
            "The device management library cannot start: the container lacks a mount of the "
            "driver, the driver is not loaded, or the device is in use. Check the mounts and "
            "'npu-smi info' on the host, then try once more."
        ),
        source="vllm-ascend #2698; HAMi #23",
    ),
    Definition(
        codes=(
            Code("EI0007", "HCCL ran out of memory or notify registers"),
            Code("EI0011", "HCCL ran out of device memory"),
            Code("EL0004", "the driver ran out of memory"),
            Code("207001", "out of memory"),
            Code("207018", "out of device memory"),
        ),
        failure_class=FailureClass.PERMANENT,
        otherwise=_HELD,
        wait_seconds=60,
        advice=(
            "The device is out of memory. If 'npu-smi info' shows another process on it, end "
            "that one and try again; if not, take a smaller batch or model, or a smaller "
            "HCCL_BUFFSIZE."
        ),
        source="EC; RTC",
    ),
    Definition(
        codes=(Code("EL0007", "no permission for the device"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "This user may not use the device, or another container was given it. Check the "
            "rights of /dev/davinci* and the user's groups, and which container has the device."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("EL0015", "the device may not be accessed from here"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The device belongs to another container, or processes of an ended container are "
            "left. Check which container was given the device and end what is left of it."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("EL0001", "the device is absent or abnormal"),
            Code("207004", "there is no device"),
            Code("E39002", "the driver does not list the devices"),
        ),
        failure_class=FailureClass.HARDWARE,
        advice=(
            "The device is not there or has dropped out. See with 'npu-smi info' which devices "
            "the driver still knows; if one is missing, an administrator has to look at it."
        ),
        source="EC; RTC",
    ),
)

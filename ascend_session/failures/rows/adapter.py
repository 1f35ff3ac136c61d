"""Failures of the TensorFlow adapter and the graph engine's compilers (E2, E4 codes)."""

from typing import Tuple

from ascend_session.failures.classes import FailureClass, Role
from ascend_session.failures.definition import Code, Definition, Message

__all__ = ["ROWS"]

ROWS: Tuple[Definition, ...] = (
    Definition(
        codes=(
            Code("E40002", "the Python version does not fit"),
            Code("E40020", "a Python module cannot be imported"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The operator compiler does not find a Python that fits or one of its modules. Run "
            "'source set_env.sh' of the CANN toolkit in this shell and check the Python version."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("E20007", "a graph fusion pass failed"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The graph has a part that the fusion pass named here cannot handle. Switch that "
            "pass off in the file of fusion_switch_file, or change that part of the graph."
        ),
        source="EC",
    ),
    Definition(
        messages=(
            Message("CM_CHIEF_IP and RANK_TABLE_FILE cannot be configured at the same time"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "Unset CM_CHIEF_IP or RANK_TABLE_FILE. With both set the adapter goes on without "
            "collectives, and every rank trains alone."
        ),
        source="TFA ge_plugin.cc",
    ),
    Definition(
        messages=(Message("ASCEND_DEVICE_ID is invalid"),),
        failure_class=FailureClass.PERMANENT,
        advice="Set ASCEND_DEVICE_ID to the device's logical id, a whole number from 0.",
        source="TFA npu_attrs.cc",
    ),
    Definition(
        messages=(
            Message("get rank id error"),
            Message("Call hcom_bind_model failed"),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "A collective or a rank query came before the collectives were initialised. Call it "
            "inside 'with ascend_system(...)', that is after initialize_system."
        ),
        source="TFA init_collective_communication.md",
    ),
    Definition(
        messages=(
            Message("[GePlugin] Initialize ge failed"),
            Message("GEInitialize failed"),
        ),
        failure_class=FailureClass.AMBIGUOUS,
        role=Role.WRAPPER,
        advice=(
            "The graph engine did not start. The code in the lines below, after 'Error Message "
            "is', says why; if there is none, read the process's own log (plog)."
        ),
        source="TFA ge_plugin.cc",
    ),
    Definition(
        messages=(Message("[GePlugin] Tdt host init failed"),),
        failure_class=FailureClass.AMBIGUOUS,
        role=Role.WRAPPER,
        advice=(
            "The data channel to the device did not open, and the process aborts after 3 "
            "seconds. The code in the lines around, or the process's own log (plog), says why."
        ),
        source="TFA ge_plugin.cc",
    ),
    Definition(
        messages=(Message("Ge has already initialized"),),
        failure_class=FailureClass.PERMANENT,
        role=Role.NOTICE,
        advice=(
            "This is no failure: a second initialisation in the process was ignored, and the "
            "options of the first one stay in force."
        ),
        source="TFA ge_plugin.cc",
    ),
)

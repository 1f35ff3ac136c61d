"""The keywords by which HCCL says in which stage it failed, from CANN 8.5 on.

Source: HCCL-DOC debug_thinking. The table gives ``Resource``, ``Not Supported`` and ``RunFailed``
no class; here they only say where it failed.
"""

from typing import Tuple

from ascend_session.failures.classes import FailureClass, Role
from ascend_session.failures.definition import Definition, Message

__all__ = ["ROWS"]

_SOURCE = "HCCL-DOC debug_thinking"


def _init(keyword: str, stage: str = "InitGroupStage") -> Message:
    # Port clashes are printed as [InitChannelStage][RanktableDetect]: either stage is taken.
    pattern = rf"\[Init(?:Group|Channel)Stage\]\[{keyword}\]"
    return Message(f"Stage][{keyword}]", f"[{stage}][{keyword}]", pattern)


def _channel(keyword: str) -> Message:
    return _init(keyword, "InitChannelStage")


def _run(keyword: str) -> Message:
    return Message(f"[TaskExecStage][{keyword}]")


ROWS: Tuple[Definition, ...] = (
    Definition(
        messages=(_init("EnvConfig"),),
        failure_class=FailureClass.PERMANENT,
        role=Role.STAGE,
        advice="Correct the HCCL environment variable that the line names.",
        source=_SOURCE,
    ),
    Definition(
        messages=(_init("RanktableConfig"), _init("RanktableCheck")),
        failure_class=FailureClass.PERMANENT,
        role=Role.STAGE,
        advice=(
            "HCCL refused the rank table, or what the ranks told each other about their "
            "devices. Correct what the line names."
        ),
        source=_SOURCE,
    ),
    Definition(
        messages=(_channel("ParameterConflict"),),
        failure_class=FailureClass.PERMANENT,
        role=Role.STAGE,
        advice=(
            "Two ranks call a collective with different arguments. Start all ranks with the "
            "same script, the same arguments and the same data."
        ),
        source=_SOURCE,
    ),
    Definition(
        messages=(_channel("VersionConflict"),),
        failure_class=FailureClass.PERMANENT,
        role=Role.STAGE,
        advice="Install the same CANN version on all hosts of the job.",
        source=_SOURCE,
    ),
    Definition(
        messages=(_run("InvalidArgument"),),
        failure_class=FailureClass.PERMANENT,
        role=Role.STAGE,
        advice="Correct the argument of the collective that the line names.",
        source=_SOURCE,
    ),
    Definition(
        messages=(_init("RanktableDetect"), _channel("Timeout")),
        failure_class=FailureClass.SECONDARY,
        role=Role.STAGE,
        advice=(
            "This rank waited for others that did not come. Look for the rank that failed first "
            "or was never started; then check HCCL_CONNECT_TIMEOUT and the network."
        ),
        source=_SOURCE,
    ),
    Definition(
        messages=(_run("Timeout"), _run("HeartbeatAbnormal")),
        failure_class=FailureClass.SECONDARY,
        role=Role.STAGE,
        advice=(
            "Another rank ended, hangs or is much slower than this one. Look for the rank that "
            "failed first; then check HCCL_EXEC_TIMEOUT."
        ),
        source=_SOURCE,
    ),
    Definition(
        messages=(_init("Resource"), _run("Not Supported"), _run("RunFailed")),
        failure_class=FailureClass.AMBIGUOUS,
        role=Role.WRAPPER,
        advice="HCCL failed in this stage; the rest of the line and the codes around say why.",
        source=f"{_SOURCE} (no class given there)",
    ),
)

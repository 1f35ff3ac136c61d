"""What is checked before the first process of a job is started.

On the stub that is what concerns the stub, and costs next to nothing; the checks of devices are
loaded only where there are devices to use.
"""

import logging
import os
from typing import Callable, List, Mapping, Optional, Sequence

from ascend_session.backends import backend_class
from ascend_session.checks.job_files import (
    FOLDER,
    PROGRAM,
    check_folder,
    check_module,
    check_script,
)
from ascend_session.errors import AscendError, PreflightError
from ascend_session.findings import ERROR, NOT_CHECKED, Finding, errors_of, remarks_of
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.nodes import await_table
from ascend_session.launcher.plan import Plan, draft

__all__ = ["checked_plan", "planned_or_refused"]

_logger = logging.getLogger(__name__)

_ASKED = "launch"
# What another call would mend; all else is the host's.
_OF_THE_CALL = (_ASKED, FOLDER, PROGRAM)
_MEND = "Mend what can be mended, or launch with preflight=False, which skips these checks."
_SKIP = "Or launch with preflight=False, which skips the checks."


def planned_or_refused(config: LaunchConfig, environ: Mapping[str, str]) -> Plan:
    """Give the plan of a first attempt.

    Raises:
        PreflightError: If there are several reasons why there is none, with all of them.
        AscendError: If there is one, as `plan` says it.
    """
    drafted = draft(config, environ)
    if drafted.problems:
        raise _all_of(drafted, config, environ)
    return drafted


def checked_plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]] = None,
) -> Plan:
    """Give the plan of a first attempt, after everything was checked that a job needs.

    Nothing is started or made, but for ``npu-smi`` and ``hccn_tool`` where there are devices.

    Args:
        config: What the launch is asked; with ``preflight=False`` only the plan is made, and what
            ``wait_for_devices`` and ``wait_for_table`` ask for is waited for.
        environ: The launcher's environment.
        say: Is told who or what is waited for; None means that it is logged.

    Returns:
        The plan; its notes say what a user should know and what could not be checked.

    Raises:
        PreflightError: With all that stands in the way.
        DeviceTimeoutError: If devices were waited for and are still held.
        AscendError: If there is no plan, for one reason; see `plan`.
    """
    await_table(config, environ, say or _logger.warning)
    planned = planned_or_refused(config, environ)
    try:
        findings = _looked_at(planned, config, environ, say)
    except BaseException:
        planned.held_port.close()
        raise
    notes = [*planned.notes, *(_noted(finding) for finding in remarks_of(findings))]
    planned.notes = tuple(dict.fromkeys(notes))
    return planned


def _looked_at(
    planned: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]],
) -> List[Finding]:
    findings: List[Finding] = []
    if config.preflight:
        findings += _of_every_job(config, planned)
    if backend_class(planned.backend).holds_devices:
        from ascend_session.launcher.preflight_npu import look_and_wait

        findings = look_and_wait(planned, config, environ, findings, say)
    _refuse(findings)
    return findings


def _of_every_job(config: LaunchConfig, planned: Plan) -> List[Finding]:
    """Check what matters on devices and on the stub alike."""
    findings: List[Finding] = []
    if planned.logs is not None:
        findings += check_folder(planned.logs)
    if planned.cwd is not None and config.script is not None:
        findings += check_script(os.path.join(planned.cwd, config.script))
    if planned.cwd is not None and config.module is not None and config.python is None:
        findings += check_module(config.module, planned.cwd, planned.environment)
    return findings


def _all_of(drafted: Plan, config: LaunchConfig, environ: Mapping[str, str]) -> AscendError:
    """Say why there is no plan, and what else stands in the way; one problem alone as it is."""
    findings: List[Finding] = []
    if config.preflight:
        findings += _of_every_job(config, drafted)
        if drafted.devices and backend_class(drafted.backend).holds_devices:
            from ascend_session.launcher.preflight_npu import on_devices

            findings += on_devices(drafted, environ)
    refused = {problem.message: problem for problem in drafted.problems}
    findings = [finding for finding in findings if finding.message not in refused]
    if len(refused) == 1 and not errors_of(findings):
        return drafted.problems[0]
    unseen = [one for one in refused.values() if not _is_said(one, findings)]
    call_findings = [Finding(ERROR, one.message, one.hint, rule=_ASKED) for one in unseen]
    return _refusal([*call_findings, *findings])


def _is_said(refusal: AscendError, findings: Sequence[Finding]) -> bool:
    """Tell whether a check has found all that a refusal, as that of a rank table, is made of."""
    faults = [finding.message for finding in errors_of(getattr(refusal, "findings", ()))]
    messages = [finding.message for finding in errors_of(findings)]
    return bool(faults) and all(
        any(message.endswith(fault) for message in messages) for fault in faults
    )


def _refuse(findings: Sequence[Finding]) -> None:
    if errors_of(findings):
        raise _refusal(findings)


def _refusal(findings: Sequence[Finding]) -> PreflightError:
    """Make one error of all findings but those that are fine."""
    wrong, others = errors_of(findings), remarks_of(findings)
    is_wrong_call = any(finding.rule in _OF_THE_CALL for finding in wrong)
    if len(wrong) == 1 and not others:
        message, advice = wrong[0].message, wrong[0].hint
        skip = None if is_wrong_call else _SKIP
        hint = " ".join(part for part in (advice, skip) if part) or None
    else:
        message = "\n".join(_lines(wrong, others))
        hint = "Mend them, and launch again." if is_wrong_call else _MEND
    return PreflightError(
        message, hint=hint, findings=[*wrong, *others], is_wrong_call=is_wrong_call
    )


def _lines(wrong: Sequence[Finding], others: Sequence[Finding]) -> List[str]:
    count = f"{len(wrong)} things stand" if len(wrong) > 1 else "One thing stands"
    lines = [f"{count} in the way of this job:"]
    numbers = [f"{number}. " for number in range(1, len(wrong) + 1)] if len(wrong) > 1 else [""]
    lines += [f"  {number}{_within(str(finding))}" for number, finding in zip(numbers, wrong)]
    if others:
        lines += ["Besides:", *(f"  - {_within(_noted(finding))}" for finding in others)]
    return lines


def _within(text: str) -> str:
    """Indent a text of several lines as one point of a list."""
    return text.replace("\n", "\n     ")


def _noted(finding: Finding) -> str:
    return f"Not checked. {finding}" if finding.severity == NOT_CHECKED else str(finding)

"""What is checked before the first process of a job is started.

On the stub that is what concerns the stub, and costs next to nothing; the checks of devices are
loaded only where there are devices to use.
"""

import logging
import os
from typing import Callable, List, Mapping, Optional, Sequence

from ascend_session.checks.finding import ERROR, NOT_CHECKED, Finding, errors, remarks
from ascend_session.checks.folders import FOLDER, check_folder
from ascend_session.checks.programs import PROGRAM, check_module, check_script
from ascend_session.errors import AscendError, PreflightError
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.plan import Plan, plan
from ascend_session.launcher.table_waiting import await_table

__all__ = ["checked_plan", "planned_or_refused"]

_logger = logging.getLogger(__name__)

_ASKED = "launch"
# What another call would mend; all else is the host's.
_OF_THE_CALL = (_ASKED, FOLDER, PROGRAM)
_MEND = "Mend what can be mended, or launch with preflight=False, which skips these checks."
_SKIP = "Or launch with preflight=False, which skips the checks."


def planned_or_refused(config: LaunchConfig, environ: Mapping[str, str]) -> Plan:
    """The plan of a first attempt.

    Raises:
        PreflightError: If there are several reasons why there is none, with all of them.
        AscendError: If there is one, as `plan` says it.
    """
    try:
        return plan(config, environ)
    except AscendError as refusal:
        raise _all_of(refusal, config, environ) from None


def checked_plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]] = None,
) -> Plan:
    """The plan of a first attempt, after everything was checked that a job needs.

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
        found = _looked_at(planned, config, environ, say)
    except BaseException:
        planned.reserved.release()
        raise
    notes = [*planned.notes, *(_noted(finding) for finding in remarks(found))]
    return planned._replace(notes=tuple(dict.fromkeys(notes)))


def _looked_at(
    planned: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]],
) -> List[Finding]:
    found: List[Finding] = []
    if config.preflight:
        first = planned.ranks[0]
        logs = os.path.dirname(os.path.dirname(planned.folder))
        found += _of_every_job(config, logs, first.cwd, first.environment)
    if planned.backend == "npu":
        from ascend_session.launcher.intended import of_plan
        from ascend_session.launcher.preflight_npu import look_and_wait

        found = look_and_wait(of_plan(planned), config, environ, found, say)
    _refuse(found)
    return found


def _of_every_job(
    config: LaunchConfig,
    logs: Optional[str],
    cwd: Optional[str],
    environ: Mapping[str, str],
) -> List[Finding]:
    """What is checked on devices and on the stub alike."""
    found: List[Finding] = []
    if logs is not None:
        found += check_folder(logs)
    if cwd is not None and config.script is not None:
        found += check_script(os.path.join(cwd, config.script))
    if cwd is not None and config.module is not None and config.python is None:
        found += check_module(config.module, cwd, environ)
    return found


def _all_of(refusal: AscendError, config: LaunchConfig, environ: Mapping[str, str]) -> AscendError:
    """Why there is no plan, and what else stands in the way; the refusal itself if nothing does."""
    from ascend_session.launcher.intended import intended

    job, others = intended(config, environ)
    found: List[Finding] = []
    if config.preflight:
        found += _of_every_job(config, job.logs, job.cwd, job.environ)
        if job.backend == "npu" and job.devices:
            from ascend_session.launcher.preflight_npu import on_devices

            found += on_devices(job, environ)
    refused = {one.message: one for one in [refusal, *others]}
    found = [finding for finding in found if finding.said not in refused]
    if len(refused) == 1 and not errors(found):
        return refusal
    said = [one for one in refused.values() if not _is_said(one, found)]
    asked = [Finding(_ASKED, ERROR, one.message, one.hint) for one in said]
    return _refusal([*asked, *found])


def _is_said(refusal: AscendError, found: Sequence[Finding]) -> bool:
    """Whether a check has found all that a refusal, as that of a rank table, is made of."""
    wrong = [one.said for one in getattr(refusal, "findings", ()) if one.severity == ERROR]
    told = [finding.said for finding in errors(found)]
    return bool(wrong) and all(any(one.endswith(said) for one in told) for said in wrong)


def _refuse(found: Sequence[Finding]) -> None:
    if errors(found):
        raise _refusal(found)


def _refusal(found: Sequence[Finding]) -> PreflightError:
    """One error of all findings but those that are fine."""
    wrong, others = errors(found), remarks(found)
    is_wrong_call = any(finding.check in _OF_THE_CALL for finding in wrong)
    if len(wrong) == 1 and not others:
        message, advice = wrong[0].said, wrong[0].hint
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
    lines += [f"  {number}{_within(str(one))}" for number, one in zip(numbers, wrong)]
    if others:
        lines += ["Besides:", *(f"  - {_within(_noted(one))}" for one in others)]
    return lines


def _within(text: str) -> str:
    """A text of several lines as one point of a list."""
    return text.replace("\n", "\n     ")


def _noted(finding: Finding) -> str:
    return f"Not checked. {finding}" if finding.severity == NOT_CHECKED else str(finding)

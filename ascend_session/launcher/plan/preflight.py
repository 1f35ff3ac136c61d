"""What is checked before the first process of a job is started.

On the stub that is what concerns the stub, and costs next to nothing; the checks of devices are
loaded only where there are devices to use.
"""

import os
from typing import Callable, List, Mapping, NoReturn, Optional, Sequence

from ascend_session.checks.environment import (
    FOLDER,
    PROGRAM,
    check_folder,
    check_module,
    check_script,
)
from ascend_session.errors import AscendError, JobError, PreflightError
from ascend_session.findings import ERROR, NOT_CHECKED, Finding, errors_of, remarks_of
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import AssumedDevices
from ascend_session.launcher.plan.plan import JobDraft, Plan, decide_job
from ascend_session.process import is_in_front
from ascend_session.spelling import Message, option, template_of

_PLAN = "launch"  # the rule of what the plan refuses
_RULES_OF_THE_CALL = (_PLAN, FOLDER, PROGRAM)
"""Rules that the user fixes by another command line; the others concern the host."""


def planned_or_refused(
    config: LaunchConfig,
    environ: Mapping[str, str],
    assumed: Optional[AssumedDevices],
) -> Plan:
    """Plan a first attempt; the arguments are those of `plan.decide_job`.

    A plan for another machine says so, and its rank table is checked by the rules of the product.

    Raises:
        PreflightError: If there are several reasons why there is no plan, with all of them.
        AscendError: If there is one, as `plan.plan_job` raises it.
    """
    draft = decide_job(config, environ, assumed=assumed)
    plan = draft.plan or _refuse_all(draft)
    if assumed is None:
        return plan
    findings = _check_table(draft) if config.preflight else []
    if errors_of(findings):
        raise _refuse(findings)
    note = f"This plan is for another machine, with {assumed}; nothing was checked of this one."
    return plan._replace(notes=(note, *plan.notes, *map(_word_remark, remarks_of(findings))))


def _refuse_all(draft: JobDraft) -> NoReturn:
    """Raise all that the decisions refuse, with what the host has against the job as well."""
    findings: List[Finding] = []
    if draft.request.config.preflight:
        findings += _check_files(draft)
        if draft.devices and draft.holds_npus:
            from ascend_session.launcher.plan.preflight_npu import check_host

            findings += check_host(draft)
    problems = {problem.message: problem for problem in draft.problems}
    findings = [finding for finding in findings if finding.message not in problems]
    if len(problems) == 1 and not errors_of(findings):
        raise draft.problems[0]
    new = [problem for problem in problems.values() if not _is_covered(problem, findings)]
    of_call = [Finding(ERROR, problem.message, problem.hint, rule=_PLAN) for problem in new]
    raise _refuse([*of_call, *findings])


def checked_plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]] = None,
) -> Plan:
    """Plan a first attempt, and check everything that a job needs.

    Nothing is started or made, but for ``npu-smi`` and ``hccn_tool`` where there are devices.

    Args:
        config: The options of the launch; with ``preflight=False`` only the plan is made, after
            the waits for which ``wait_for_devices`` and ``wait_for_table`` ask.
        environ: The launcher's environment.
        say: Takes a sentence about who or what is waited for; None means that it is logged.

    Returns:
        The plan; its notes say what a user should know and what could not be checked.

    Raises:
        PreflightError: With all that stands in the way.
        DeviceTimeoutError: If devices were waited for and are still held.
        AscendError: If there is no plan, for one reason; see `plan.plan_job`.
    """
    if config.attach is not None:
        _check_terminal()
    draft = decide_job(config, environ, on_wait=say or _log)
    plan = draft.plan or _refuse_all(draft)
    findings = _check_files(draft) if config.preflight else []
    if draft.holds_npus:
        from ascend_session.launcher.plan.preflight_npu import check_and_wait

        findings = check_and_wait(draft, findings, say)
    if errors_of(findings):
        raise _refuse(findings)
    notes = [*plan.notes, *map(_word_remark, remarks_of(findings))]
    is_checked = config.preflight and not draft.holds_npus
    if is_checked and any(name.startswith("HCCL_") for name in draft.variables):
        from ascend_session.config.hccl_variables import check_hccl_variables

        unused = check_hccl_variables(draft.variables, is_used=False)
        notes += [finding.message for finding in unused]
    return plan._replace(notes=tuple(dict.fromkeys(notes)))


def _check_terminal() -> None:
    """Refuse to attach a rank where there is no terminal for it (JobError)."""
    flag = option("attach")
    if not os.isatty(0):
        raise JobError(
            f"{flag}: standard input is not a terminal.",
            hint=f"Launch from a terminal, or leave {flag} out.",
        )
    if not is_in_front(0):
        raise JobError(
            f"{flag}: the launcher runs in the background of its terminal.",
            hint="Launch without & at the end.",
        )


def _log(sentence: str) -> None:
    import logging

    logging.getLogger(__name__).warning(sentence)


def _check_files(job: JobDraft) -> List[Finding]:
    """Check the logs' folder, the program and, on the stub, the rank table that is given."""
    config = job.request.config
    findings: List[Finding] = []
    if job.logs is not None:
        findings += check_folder(job.logs)
    if job.cwd is not None and config.script is not None:
        findings += check_script(os.path.join(job.cwd, config.script))
    if job.cwd is not None and config.module is not None and config.python is None:
        findings += check_module(config.module, job.cwd, job.variables)
    if not job.holds_npus:  # on devices `preflight_npu` does it
        findings += _check_table(job)
    return findings


def _check_table(job: JobDraft) -> List[Finding]:
    """Check the rank table of a job that does not run on devices of this host.

    On the stub, only what HCCL would refuse counts, and that only HCCL reads the table.
    """
    if job.rank_table is None:
        return []
    from ascend_session.checks.tables import check_table, read_table

    assumed = job.request.assumed
    product = None if assumed is None else assumed.product
    read = read_table(job.rank_table, product, job.variables)
    findings = list(read.findings)
    if assumed is None and (read.table is not None or errors_of(findings)):
        return errors_of(findings)
    if assumed is not None and read.table is not None:
        from ascend_session.hardware.device_report import DeviceReport

        opened = dict(enumerate(job.physical, job.first_rank))
        nobody = DeviceReport(())
        findings += errors_of(check_table(read.table, nobody, opened, job.size or None))
    return findings


def _is_covered(problem: AscendError, findings: Sequence[Finding]) -> bool:
    """Tell whether the checks have all faults of which a refusal, as of a rank table, consists."""
    faults = [finding.message for finding in errors_of(getattr(problem, "findings", ()))]
    messages = [finding.message for finding in errors_of(findings)]
    return bool(faults) and all(
        any(message.endswith(fault) for message in messages) for fault in faults
    )


def _refuse(findings: Sequence[Finding]) -> PreflightError:
    """Make one error of all findings but those that are fine."""
    errors, remarks = errors_of(findings), remarks_of(findings)
    is_wrong_call = any(finding.rule in _RULES_OF_THE_CALL for finding in errors)
    if len(errors) == 1 and not remarks:
        message, hint = errors[0].message, errors[0].hint
        if not is_wrong_call:
            skip = f"launch with {option('preflight', False)} to skip the checks."
            hint = f"{template_of(hint)} Or {skip}" if hint else f"Correct this, or {skip}"
    else:
        message = "\n".join(_list_findings(errors, remarks))
        hint = f"Correct these, or launch with {option('preflight', False)} to skip the checks."
        if is_wrong_call:
            hint = "Correct these, and launch again."
    findings = [*errors, *remarks]
    return PreflightError(message, hint=hint, findings=findings, is_wrong_call=is_wrong_call)


def _list_findings(errors: Sequence[Finding], remarks: Sequence[Finding]) -> List[str]:
    is_one = len(errors) == 1
    count = "One thing stands" if is_one else f"{len(errors)} things stand"
    lines = [f"{count} in the way of this job:"]
    for number, finding in enumerate(errors, 1):
        lines.append(f"  {'' if is_one else f'{number}. '}{_indent(finding.template)}")
    if remarks:
        lines += [
            "Besides:",
            *(f"  - {_indent(template_of(_word_remark(finding)))}" for finding in remarks),
        ]
    return lines


def _indent(text: str) -> str:
    return text.replace("\n", "\n     ")


def _word_remark(finding: Finding) -> str:
    text = finding.template
    return Message(f"Not checked. {text}" if finding.severity == NOT_CHECKED else text)

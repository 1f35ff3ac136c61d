"""The effect of each option of a script's session: on a device, here, and so far in its loops.

A verdict on the entry (`verdicts`) and the loops that the session has run become `SessionOption`,
which the report lists.
"""

from typing import Any, List, Mapping, NamedTuple, Sequence

from ascend_session.backends.host_loop import describe_fed
from ascend_session.compat.verdicts import EntryVerdict, key_of
from ascend_session.findings import DIFFERS, HOST, NO_EFFECT, WARNING
from ascend_session.text import join_words


class SessionOption(NamedTuple):
    """One option of one session.

    Attributes:
        key: The vendor's key.
        value: The value in the entry.
        effect: ``device`` (correct), ``warning`` (a device takes it, but see the reason),
            ``differs`` (in effect, but trains otherwise than the script suggests),
            ``default`` (NPUEstimator wrote it), ``silent`` (a device ignores it), ``stub`` (without
            effect here), ``unused`` (correct, but its session was refused), ``host`` (ends the run
            on a device whose host has the same files) or ``refused`` (ends the run on a device).
        why: The reason, in a sentence.
    """

    key: str
    value: Any
    effect: str
    why: str


IN_FORCE = {
    "hccl_timeout": "in force: collectives wait as long",
    "session_device_id": "checked; all devices share the CPU",
}
"""Options that the stub obeys, and how; with others its system would refuse what runs."""


def describe_options(verdict: EntryVerdict, is_refused: bool = False) -> List[SessionOption]:
    """Return the options of an entry, each with its effect.

    Args:
        verdict: The verdict on the entry.
        is_refused: Whether the session was refused, so that none of its options is in force.
    """
    # Of several reasons the last one holds; of several findings about an option the first one.
    effects = dict.fromkeys(verdict.written, ("device", "checked here"))
    effects.update({key: ("device", why) for key, why in IN_FORCE.items()})
    if is_refused:
        # An option that is missing may be missed by any of those that are there.
        is_other = all(key_of(finding) in verdict.written for finding in verdict.refused)
        why = "the session was refused" + " for other options" * is_other
        effects = dict.fromkeys(effects, ("unused", why))
    effects.update({key: ("stub", why) for key, why in verdict.stub_effects.items()})
    why = "the default that NPUEstimator always writes"
    effects.update(dict.fromkeys(verdict.defaults, ("default", why)))
    for finding in reversed([*verdict.late, *verdict.ignored]):
        effect = "silent"
        if finding.effect in (HOST, DIFFERS):
            effect = finding.effect
        elif finding.severity == WARNING and finding.effect != NO_EFFECT:
            effect = "warning"
        effects[key_of(finding)] = effect, str(finding)
    for finding in reversed(verdict.refused):
        effects[key_of(finding)] = "refused", str(finding)
    return [SessionOption(key, value, *effects[key]) for key, value in verdict.written.items()]


def describe_loops(
    options: Sequence[SessionOption],
    loops: Mapping[int, int],
    fed: Sequence[str] = (),
    shared: Sequence[str] = (),
    part: str = "",
) -> List[SessionOption]:
    """Return options in which iterations_per_loop says whether it was in force in the session.

    NPUEstimator, which writes its defaults, makes loops to train, and none to evaluate, predict or
    export (npu_estimator.py).

    Args:
        options: The options of a session that was opened, as `describe_options` returns them.
        loops: The loops of the session (`sessions.ScriptSession`).
        fed: Placeholders of more than a scalar that its loops were fed.
        shared: Operators of the host whose values all steps of a run have shared.
        part: Why the training ends within a run, in a sentence; else empty.
    """
    is_estimators = any(option.effect == "default" for option in options)
    return [
        _describe_loop(option, loops, is_estimators, fed, shared, part)
        if option.key == "iterations_per_loop"
        and option.effect in ("device", "warning", "silent", "differs")
        else option
        for option in options
    ]


def _describe_loop(
    option: SessionOption,
    loops: Mapping[int, int],
    is_estimators: bool,
    fed: Sequence[str],
    shared: Sequence[str],
    part: str,
) -> SessionOption:
    written = f"{option.key}={option.value}"
    runs = [_describe_runs(count, steps) for steps, count in sorted(loops.items()) if count]
    if loops and option.value not in loops:
        number = max(loops)
        why = (
            f"{written} is not the number of the loop, {number}: {' and '.join(runs) or 'no run'}. "
            f"The vendor requires the same in both: set_iteration_per_loop(sess, train_op, "
            f"{option.value}), or {option.key}={number} in the entry."
        )
        return option._replace(effect="differs", why=why)
    if runs and fed:
        why = f"{written} {describe_fed(fed, option.value)}"
        return option._replace(effect="differs", why=why)
    if runs and shared:
        names = join_words([repr(name) for name in shared])
        why = (
            f"{written} without enable_data_pre_proc: all {option.value} steps of a run train on "
            f"the same batch, that of {names}, as on a device. Set enable_data_pre_proc=True and "
            "read an initializable iterator, or run one step a run."
        )
        return option._replace(effect="differs", why=why)
    if runs and part:
        return option._replace(effect="differs", why=part)
    if runs:
        is_remark = option.key in option.why and option.effect != "differs"
        on_device = f" On a device, {option.why}" if is_remark else ""
        why = f"{written} was in force: {' and '.join(runs)}.{on_device}"
        return option._replace(effect="device", why=why)
    if loops:
        what = (
            "the loop that was made was never run. Run what util.set_iteration_per_loop returns, "
            "or, with SetIterationsVarHook, the operation named IterationOp."
        )
    elif option.value == 1:
        return option._replace(why="in force: each run makes one step")
    elif is_estimators:
        why = f"{written} is for training; this session makes one step a run."
        return option._replace(effect="device", why=why)
    else:
        what = (
            "each run made one step, for no loop was made. Run what "
            f"util.set_iteration_per_loop(sess, train_op, {option.value}) returns, or leave the "
            "option out."
        )
    return option._replace(effect="silent", why=f"{written} was not in force: {what}")


def _describe_runs(count: int, steps: int) -> str:
    who, each = ("1 run", "") if count == 1 else (f"{count} runs", " each")
    if steps == 0:
        return f"{who} stopped in the first step"
    return f"{who} made {steps} step{'s' if steps > 1 else ''}{each}"

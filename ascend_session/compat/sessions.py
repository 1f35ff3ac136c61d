"""The sessions of a script: the effect of each option, and what has initialised the device.

A verdict on the entry (`verdicts`) and the loops that a session has run become `SessionOption`s,
which the report lists.

The adapter starts the device with the first session or with the operator ``NPUInit``, and ends it
with the last session, with ``NPUShutdown`` or at exit. Sources: the adapter's geop_npu.cc,
ge_plugin.cc and npu_sys_ctl_ops.cc; guides/facts/process.md#life-of-ge-in-a-process.
"""

import os
import warnings
import weakref
from dataclasses import dataclass, field
from typing import (
    Any,
    Dict,
    List,
    Mapping,
    MutableMapping,
    MutableSet,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

from ascend_session.backends.host_loop import describe_fed
from ascend_session.backends.tf_sessions import open_sessions
from ascend_session.compat.verdicts import EntryVerdict, key_of
from ascend_session.config.hints import SIBLINGS
from ascend_session.errors import ConfigError
from ascend_session.findings import DIFFERS, ERROR, HOST, NO_EFFECT, WARNING, Finding
from ascend_session.session.conditions import find_unsupported
from ascend_session.session.options import Leftovers, init_options, late_options
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


def _describe_loop(option: SessionOption, session: "ScriptSession") -> SessionOption:
    """Say whether iterations_per_loop was in force in a session, by the loops that it has run.

    NPUEstimator, which writes its defaults, makes loops to train, and none to evaluate, predict or
    export (npu_estimator.py).
    """
    loops, shared = session.loops, session.shared
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
    if runs and session.fed:
        why = f"{written} {describe_fed(session.fed, option.value)}"
        return option._replace(effect="differs", why=why)
    if runs and shared:
        names = join_words([repr(name) for name in shared])
        why = (
            f"{written} without enable_data_pre_proc: all {option.value} steps of a run train on "
            f"the same batch, that of {names}, as on a device. Set enable_data_pre_proc=True and "
            "read an initializable iterator, or run one step a run."
        )
        return option._replace(effect="differs", why=why)
    if runs and session.part:
        return option._replace(effect="differs", why=session.part)
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
    elif any(each.effect == "default" for each in session.options):
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


@dataclass(eq=False)
class ScriptSession:
    """One session that the script has opened, or has tried to open.

    Attributes:
        number: From 1, in the order of opening.
        kind: The name of its class.
        where: File and line of the script.
        verdict: What the adapter makes of its entry.
        options: Its options, each with its effect when it was opened.
        notes: Other sentences about it.
        is_refused: Whether it was refused for its options.
        has_run: Whether it has run anything.
        loops: Numbers of runs by the number of steps that each has made: fewer than the loop's if
            the run failed. A loop that was made but never run has 0 runs.
        fed: Placeholders of more than a scalar that its loops were fed.
        shared: Operators of the host whose values all steps of a loop's run have shared.
        part: Why its training ends within a run, in a sentence; else empty.
    """

    number: int
    kind: str
    where: str
    verdict: EntryVerdict
    options: List[SessionOption]
    notes: List[str]
    is_refused: bool
    has_run: bool = False
    loops: Dict[int, int] = field(default_factory=dict)
    fed: List[str] = field(default_factory=list)
    shared: List[str] = field(default_factory=list)
    part: str = ""
    _checked_count: int = 0  # operators
    _reported: Set[Any] = field(default_factory=set)  # options with a finding about operators

    @property
    def settings(self) -> List[SessionOption]:
        """Its options, each with its effect so far."""
        if self.is_refused:
            return self.options
        return [
            _describe_loop(option, self)
            if option.key == "iterations_per_loop"
            and option.effect in ("device", "warning", "silent", "differs")
            else option
            for option in self.options
        ]

    def as_dict(self) -> Dict[str, Any]:
        """Return the session, as far as it has come, as plain values."""
        return {
            "number": self.number,
            "kind": self.kind,
            "where": self.where,
            "has_entry": self.verdict.has_entry,
            "settings": [dict(setting._asdict()) for setting in self.settings],
            "notes": self.notes,
            "is_refused": self.is_refused,
            "loops": self.loops,
            "fed": self.fed,
            "shared": self.shared,
            "part": self.part,
            "graph": self.verdict.graph,
        }

    def check_graph(self, graph: Any) -> None:
        """Check what its graph has got since it was checked last."""
        if not self.verdict.is_offloaded or graph.version == self._checked_count:
            return
        operations = graph.get_operations()[self._checked_count :]
        self._checked_count += len(operations)
        ignored = {option.key for option in self.options if option.effect == "silent"}
        for finding in find_unsupported(operations, self.verdict.values, os.environ):
            effect = "refused" if finding.severity == ERROR else "warning"
            if effect == "warning" and finding.option in ignored:
                continue
            if finding.option not in self._reported:
                self._reported.add(finding.option)
                self.verdict.graph.setdefault(effect, []).append(str(finding))


class SessionLog:
    """The sessions of one process, and the options with which they have initialised the device.

    Attributes:
        sessions: All sessions so far.
    """

    def __init__(self) -> None:
        self.sessions: List[ScriptSession] = []
        self._by_session: MutableMapping[Any, ScriptSession] = weakref.WeakKeyDictionary()
        self._offloaded: MutableSet[Any] = weakref.WeakSet()  # that have not been shut down
        self._initial: Optional[Dict[str, Any]] = None
        self._initial_name = ""
        self._leftovers = Leftovers()

    def add(
        self, session: Any, where: str, verdict: EntryVerdict, is_refused: bool = False
    ) -> None:
        """Add a session that was opened or refused."""
        number, kind = len(self.sessions) + 1, type(session).__name__
        options, notes = describe_options(verdict, is_refused), list(verdict.notes)
        added = ScriptSession(number, kind, where, verdict, options, notes, is_refused)
        self.sessions.append(added)
        if is_refused:
            return
        reasons = {option.why for option in options}
        notes += [str(each) for each in verdict.ignored if str(each) not in reasons]
        self._by_session[session] = added
        if verdict.is_offloaded:
            self._offloaded.add(session)
            if self._initial is None:  # this session initialises GE
                self._initial = init_options(verdict.values)
                self._initial_name = f"session {number} ({where})"

    def has_opened(self) -> bool:
        """Return whether a session was opened; a refused one does not count."""
        return not all(session.is_refused for session in self.sessions)

    def note_any_run(self, session: Any) -> None:
        """Note that a session runs something, and check what its graph has now."""
        added = self._by_session.get(session)
        if added is not None:
            added.has_run = True
            added.check_graph(session.graph)

    def note_loop(self, session: Any, steps: int) -> None:
        """Note that a session has a loop of so many steps."""
        if session in self._by_session:
            self._by_session[session].loops.setdefault(steps, 0)

    def note_part(self, session: Any, sentence: str) -> None:
        """Note that the training of a session ends within a run of its loop."""
        if session in self._by_session:
            self._by_session[session].part = sentence

    def note_run(
        self, session: Any, steps: int, fed: Sequence[str] = (), shared: Sequence[str] = ()
    ) -> None:
        """Count a run of a loop.

        Args:
            session: The session.
            steps: The steps that the run has made.
            fed: Placeholders that it was fed.
            shared: Operators of the host whose values its steps have shared.
        """
        added = self._by_session.get(session)
        if added is not None:
            added.loops[steps] = added.loops.get(steps, 0) + 1
            for names, more in ((added.fed, fed), (added.shared, shared)):
                names += [name for name in more if name not in names]

    def check_initialised(self, verdict: EntryVerdict) -> None:
        """Compare the options of a new session with those of the device's initialisation.

        Adds to the verdict: options that come too late; an error if an option fails together with
        one that an earlier initialisation has left in the adapter; notes on those that stay.
        """
        if not self.open_sessions():  # GE ends with the last one (ge_plugin.cc)
            self.shut_down()
        if not verdict.is_offloaded:
            return
        if self._initial is not None:
            verdict.late = self._list_late(self._initial, verdict.values)
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._leftovers.check(verdict.values)
            except ConfigError as error:
                option = next(mode for mode in SIBLINGS if mode in verdict.values)
                verdict.refused.append(Finding(ERROR, error.message, error.hint, option=option))
                return
        verdict.notes.extend(str(each.message) for each in caught)

    def _list_late(self, initial: Mapping[str, Any], values: Mapping[str, Any]) -> List[Finding]:
        """Return findings about init options that differ from those of the initialisation."""
        late = []
        for key, option in late_options(initial, values).items():
            used = "without it"
            if key in initial:
                used = f"with {key}={initial[key]!r}"
            elif option.adapter is not None:
                used = f"with its default {option.adapter!r}"
            late.append(
                Finding(
                    ERROR,
                    f"{key}={values[key]!r} comes too late: {self._initial_name} has initialised "
                    f"the device {used}.",
                    "Set it on that session, which is the first.",
                    option=option.path,
                )
            )
        return late

    def open_sessions(self) -> List[Any]:
        """Return the offloaded sessions that are open, in the order of opening."""
        return [each for each in open_sessions() if each in self._offloaded]

    def shut_down(self) -> List[Any]:
        """Forget the initialisation of GE, and return the sessions that were open."""
        sessions = self.open_sessions()
        self._leftovers.remember(self._initial or {})
        self._offloaded.clear()
        self._initial = None
        return sessions

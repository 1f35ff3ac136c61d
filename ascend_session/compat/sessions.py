"""The sessions of a script, and the options with which they have initialised the device.

The adapter starts the device with the first session or with the operator ``NPUInit``, and ends it
with the last session, with ``NPUShutdown`` or at exit. Sources: the adapter's geop_npu.cc,
ge_plugin.cc and npu_sys_ctl_ops.cc; guides/facts/process.md#life-of-ge-in-a-process.
"""

import os
import warnings
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, MutableMapping, MutableSet, Optional, Sequence, Set

from ascend_session.backends.tf_sessions import open_sessions
from ascend_session.compat.effects import SessionOption, describe_loops, describe_options
from ascend_session.compat.verdicts import EntryVerdict
from ascend_session.config.hints import SIBLINGS
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.session.conditions import find_unsupported
from ascend_session.session.options import Leftovers, init_options, late_options


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
        return describe_loops(self.options, self.loops, self.fed, self.shared, self.part)

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

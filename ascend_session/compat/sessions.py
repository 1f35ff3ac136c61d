"""What this process knows of the sessions that the script has opened."""

import os
import warnings
import weakref
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.compat.judging import Judged
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.option import options_by_key
from ascend_session.errors import ConfigError, Problem
from ascend_session.session.agreement import Leftovers, check_init_options, init_options

__all__ = ["DEFAULT", "Book", "Setting", "Watched", "settings_of"]

DEFAULT = "default"
DEVICE_ONLY = "checked; for the device only"
_HERE = {
    "hccl_timeout": "in force: collectives wait as long",
    "iterations_per_loop": "in force where util.set_iteration_per_loop or a hook makes the loop",
    "session_device_id": "checked; all devices share the CPU",
}


class Setting(NamedTuple):
    """One option of one session.

    Attributes:
        key: The vendor's key.
        value: What stands in the entry.
        effect: ``device`` (a device would take it), ``default`` (nobody has said it), ``silent``
            (it does not do what it says there either, and nothing says so), ``stub`` (without
            effect here) or ``refused`` (a device ends the run).
        why: What becomes of it, in a sentence.
    """

    key: str
    value: Any
    effect: str
    why: str


class Watched(NamedTuple):
    """One session that the script has opened, or wanted to.

    Attributes:
        number: From 1, in the order of opening.
        kind: Its class.
        where: File and line of the script.
        has_entry: Whether it has an NpuOptimizer entry.
        settings: Its options.
        notes: What else there is to say, in sentences.
        is_refused: Whether its options kept it from being opened.
    """

    number: int
    kind: str
    where: str
    has_entry: bool
    settings: List[Setting]
    notes: List[str]
    is_refused: bool = False

    def as_dict(self) -> Dict[str, Any]:
        """The session as plain values."""
        settings = [setting._asdict() for setting in self.settings]
        return {**self._asdict(), "settings": [dict(setting) for setting in settings]}


class Book:
    """The sessions of one process, and which of their options are in force.

    Attributes:
        watched: All sessions so far.
    """

    def __init__(self) -> None:
        self.watched: List[Watched] = []
        self._open: List[Any] = []
        self._initial: Optional[Dict[str, Any]] = None
        self._leftovers = Leftovers()
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that the sessions were opened in, and no fork of it."""
        return self._pid == os.getpid()

    def late_options(self, judged: Judged) -> List[Problem]:
        """The options of a new session that came too late: another session has initialised GE."""
        self._forget_if_down()
        if self._initial is None or not judged.is_offloaded:
            return []
        try:
            check_init_options(self._initial, _known(judged.values))
        except ConfigError as error:
            return list(error.problems)
        return []

    def leftovers(self, judged: Judged) -> Tuple[List[Problem], List[str]]:
        """What an earlier initialisation has left in the adapter.

        Returns:
            What fails together with this one's options, and what stays in force beside them.
        """
        self._forget_if_down()
        if self._initial is not None or not judged.is_offloaded:
            return [], []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._leftovers.check(_known(judged.values))
            except ConfigError as error:
                return [Problem("precision_mode", error.message, error.hint)], []
        return [], [str(each.message) for each in caught]

    def opened(self, session: Any, watched: Watched, judged: Judged) -> None:
        """Notes a session that is open now."""
        self.watched.append(watched)
        if not judged.is_offloaded:
            return
        self._open.append(weakref.ref(session))
        if self._initial is None:
            self._initial = init_options(_known(judged.values))

    def open_sessions(self) -> List[Any]:
        """The offloaded sessions that are open, in the order of opening."""
        found = [reference() for reference in self._open]
        return [each for each in found if each is not None and not getattr(each, "_closed", False)]

    def _forget_if_down(self) -> None:
        """GE ends with its last session; the next one initialises it (adapter_behaviour.md)."""
        if not self.open_sessions():
            self.shut_down()

    def shut_down(self) -> List[Any]:
        """Forgets what GE was initialised with; returns the sessions that were open then."""
        found = self.open_sessions()
        self._leftovers.remember(self._initial or {})
        self._open, self._initial = [], None
        return found


def settings_of(judged: Judged, late: List[Problem], remarks: Mapping[str, str]) -> List[Setting]:
    """What becomes of each option of an entry.

    Args:
        judged: The entry.
        late: What came too late to be read.
        remarks: Options without effect on the stub alone, and why.
    """
    refused = _by_key(judged, judged.refused)
    silent = _by_key(judged, [*late, *judged.ignored])
    found = []
    for key, value in judged.said.items():
        if key in refused:
            found.append(Setting(key, value, "refused", refused[key]))
        elif key in judged.defaults and key not in silent:
            found.append(Setting(key, value, DEFAULT, "as NPUEstimator writes it for everybody"))
        elif key in silent:
            found.append(Setting(key, value, "silent", silent[key]))
        elif key in remarks:
            found.append(Setting(key, value, "stub", remarks[key]))
        else:
            found.append(Setting(key, value, "device", _HERE.get(key, DEVICE_ONLY)))
    return found


def _by_key(judged: Judged, problems: Sequence[Problem]) -> Dict[str, str]:
    """What was said of each option first, whatever name it was said under."""
    found: Dict[str, str] = {}
    known = options_by_key(AscendConfig)
    for problem in problems:
        for key in judged.said:
            option = known.get(key)
            names = (key,) if option is None else (key, option.name, option.path)
            if problem.option in names:
                found.setdefault(key, str(problem))
    return found


def _known(values: Mapping[str, Any]) -> Dict[str, Any]:
    known = options_by_key(AscendConfig)
    return {key: value for key, value in values.items() if key in known}

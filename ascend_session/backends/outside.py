"""What is asked for from outside a script: options that win over its own, and a record.

`ascend-session run` and `launch` ask for it by `witness.SET_VARIABLE` and `RECORD_VARIABLE`.
`watch_sessions` is called as soon as TensorFlow is loaded (by ``witness.py``), and by a system that
opens, so that both work for scripts of either kind.
"""

import os
import weakref
from typing import Any, Callable, ClassVar, Iterable, List, MutableMapping, NamedTuple, Sequence

from ascend_session import channel
from ascend_session.backends.base import is_system_graph
from ascend_session.backends.run_times import count_runs
from ascend_session.backends.tf_sessions import SessionObserver, add_observer
from ascend_session.backends.training_record import make_recorder
from ascend_session.cluster.records import read_rank
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import adapter_part
from ascend_session.config.overlay import (
    Overlay,
    describe_setting,
    describe_unused,
    list_settings,
    overlay_options,
    path_of_key,
    read_overlay,
)
from ascend_session.config.proto import overlay_entry
from ascend_session.errors import ConfigError, write_stderr
from ascend_session.spelling import template_of
from ascend_session.witness import RECORD_VARIABLE, SET_VARIABLE

_LOOPS = "iterations_per_loop"


class Replaced(NamedTuple):
    """An option that is set from outside and was otherwise in the script.

    Attributes:
        option: The path of the option.
        value: Its value now; None if it is left out.
        before: Its value in the script; None if it was not set.
    """

    option: str
    value: Any
    before: Any

    def __str__(self) -> str:
        setting = describe_setting(self.option, self.value)
        before = "not set" if self.before is None else f"{self.before!r}"
        return f"{setting} (in the script {before})"


class _State:
    """What has been replaced so far, in all sessions of this process.

    Attributes:
        observer: What replaces it.
        is_used: Whether anything took what is set from outside, if only as the script has it.
        has_host_sessions: Whether a session had no NpuOptimizer entry.
        replaced: All of it.
        unreported: What nobody has shown yet, by session.
    """

    observer: ClassVar[Any] = None
    is_used: ClassVar[bool] = False
    has_host_sessions: ClassVar[bool] = False
    replaced: ClassVar[List[Replaced]] = []
    unreported: ClassVar[MutableMapping[Any, List[Replaced]]] = weakref.WeakKeyDictionary()


def watch_sessions() -> None:
    """Apply to all sessions from now on what the environment asks for; imports TensorFlow.

    Raises:
        ConfigError: If a variable of the environment cannot be read.
    """
    count_runs()
    if _State.observer is None and os.environ.get(SET_VARIABLE):
        _State.observer = _Overlaid(read_overlay(os.environ))
        add_observer(_State.observer)
    if os.environ.get(RECORD_VARIABLE):
        add_observer(make_recorder())


def overlay_config(config: AscendConfig) -> AscendConfig:
    """Return an `AscendConfig` with what is set from outside, and its ``session_config`` without.

    Raises:
        ConfigError: As from the constructor of AscendConfig, with what is set from outside.
    """
    overlay = read_overlay(os.environ)
    if not overlay:
        return config
    try:
        overlaid = overlay_options(config, overlay)
    except ConfigError as error:
        message = f"With {list_settings(overlay)} set from outside: {template_of(error.message)}"
        hint = None if error.hint is None else template_of(error.hint)
        raise ConfigError(message, hint=hint, problems=error.problems) from None
    if config.session_config is not None:
        overlaid = overlaid.copy_with(session_config=strip_proto(config.session_config))
    before, after = adapter_part(config), adapter_part(overlaid)
    replaced = [
        Replaced(path_of_key(key), after.get(key), before.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    _show(_note(replaced))
    return overlaid


def describe_replaced(replaced: Iterable[Replaced]) -> str:
    """Return a sentence about options that are set from outside; empty without any."""
    listed = ", ".join(map(str, replaced))
    return listed and f"Set from outside: {listed}."


def strip_proto(proto: Any) -> Any:
    """Return a ``tf.ConfigProto`` whose entry lacks what is set from outside."""
    overlay = read_overlay(os.environ)
    stripped, before = overlay_entry(proto, dict.fromkeys(overlay))
    pairs = [(path_of_key(key), was) for key, was in before.items()]
    replaced = [Replaced(path, overlay.get(path), was) for path, was in pairs]
    _show(_note([each for each in replaced if each.value != each.before]))
    return stripped


def take_replaced(session: Any) -> str:
    """Return a sentence, for a report, on what is set from outside in a session; may be empty.

    Without a report that takes it, it is shown as soon as the session is open.
    """
    return describe_replaced(_State.unreported.pop(session, ()))


def find_unused(is_certain: bool = True) -> str:
    """Return a sentence if this process has used nothing of what is set from outside, or ``""``.

    Args:
        is_certain: Whether to be silent about a process without sessions, for it may have started
            others that have some.
    """
    if _State.is_used or (is_certain and not _State.has_host_sessions):
        return ""
    return describe_unused(read_overlay(os.environ), "this process")


def overlay_run_config(module: Any) -> None:
    """Have the NPURunConfig of a module take ``iterations_per_loop`` from outside.

    NPUEstimator makes its loops by that attribute; all other options it only writes into the entry.
    """
    overlay, kind = read_overlay(os.environ), module.NPURunConfig
    if _LOOPS not in overlay or hasattr(kind, "_ascend_session_loops"):
        return
    original, given = kind.__init__, overlay[_LOOPS]
    loops = 1 if given is None else given

    def __init__(self: Any, *args: Any, **named: Any) -> None:  # noqa: N807
        named.pop(_LOOPS, None)  # the first by position, too
        original(self, loops, *args[1:], **named)

    kind.__init__, kind._ascend_session_loops = __init__, True


class _Overlaid(SessionObserver):
    """Opens sessions with what is set from outside in their NpuOptimizer entry."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session with another proto, if it has an entry."""
        if is_system_graph(graph):  # its options were overlaid with those of the system
            create(session, target, graph, config)
            return
        proto, before = overlay_entry(config, self._overlay)
        if proto is config:
            _State.has_host_sessions = True
            create(session, target, graph, config)
            return
        paths = {path_of_key(key): value for key, value in before.items()}
        replaced = [Replaced(path, self._overlay.get(path), was) for path, was in paths.items()]
        new, _State.unreported[session] = _note(replaced), replaced
        try:
            create(session, target, graph, proto)
        finally:
            if _State.unreported.pop(session, None):
                _show(new)


def _note(replaced: Sequence[Replaced]) -> List[Replaced]:
    """Note what is replaced, for the launcher as well; return what is new."""
    new = [each for each in replaced if each not in _State.replaced]
    _State.replaced += new
    if new or not _State.is_used:
        channel.send("replaced", options=_State.replaced)
    _State.is_used = True
    return new


def _show(replaced: Sequence[Replaced]) -> None:
    """Show what is replaced, in rank 0."""
    if replaced and read_rank(os.environ) == 0:
        write_stderr(f"ascend-session: {describe_replaced(replaced)}\n")

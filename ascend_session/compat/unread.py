"""Sessions with an NpuOptimizer entry that nothing reads, because npu_bridge is not imported."""

import linecache
import sys
from typing import Any, Callable, Iterator, List, Sequence

from ascend_session.backends.tf_sessions import SessionObserver, add_observer, remove_observer
from ascend_session.user_code import UserLine, user_line


class UnreadEntries(SessionObserver):
    """Notes the sessions that are opened with an entry, until the script imports npu_bridge."""

    def __init__(self) -> None:
        self._lines: List[UserLine] = []

    def watch(self) -> None:
        """Note sessions from now on; imports TensorFlow."""
        add_observer(self, sees_only_opening=True)

    def stop(self) -> Sequence[UserLine]:
        """Note no more sessions, and return the lines that have opened some."""
        remove_observer(self)
        return self._lines

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session, and note where."""
        rewriter = getattr(getattr(config, "graph_options", None), "rewrite_options", None)
        entries = getattr(rewriter, "custom_optimizers", ())
        # A script of this package's own needs no import: the package does it.
        is_unread = "ascend_session.session.system" not in sys.modules
        if is_unread and any(entry.name == "NpuOptimizer" for entry in entries):
            line = user_line(sys._getframe())
            if line is not None:
                self._lines.append(line)
        create(session, target, graph, config)


def describe_unread(lines: Sequence[UserLine]) -> Iterator[str]:
    """Report the sessions that the lines have opened."""
    for line in dict.fromkeys(lines):
        texts = enumerate(linecache.getlines(line.file), 1)
        numbers = [number for number, text in texts if "NpuOptimizer" in text]
        entry = f" ({UserLine(line.file, numbers[0])})" if numbers else ""
        yield (
            f"The NpuOptimizer entry{entry} of the session that is opened at {line} has no effect, "
            "because npu_bridge was not imported before: on a device, too, the session would run "
            "on the host. Write `from npu_bridge.npu_init import *` at the top of the script."
        )

"""Warn of sessions beside the system's own that train: on a device they compute on the host.

The adapter takes the graphs of sessions whose ``tf.ConfigProto`` has its NpuOptimizer entry. Others
stay on the host, and nothing says so. Sessions that only read, initialise, save or evaluate may be
meant so.
"""

import sys
import warnings
import weakref
from typing import Any, Callable, List, MutableMapping, Optional

from ascend_session.backends.averaging import plan_run
from ascend_session.backends.tf_sessions import SessionObserver, remove_observer
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.errors import AscendConfigWarning
from ascend_session.user_code import UserLine, user_line


class HostSessions(SessionObserver):
    """Warns once of a session without the entry that runs an optimizer's update."""

    def __init__(self) -> None:
        self._lines: MutableMapping[Any, Optional[UserLine]] = weakref.WeakKeyDictionary()

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Note the line that opens a session without the entry."""
        create(session, target, graph, config)
        rewriter = getattr(getattr(config, "graph_options", None), "rewrite_options", None)
        entries = getattr(rewriter, "custom_optimizers", ())
        if not any(entry.name == ENTRY_NAME for entry in entries):
            self._lines[session] = user_line(sys._getframe())

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Warn if this run updates variables."""
        if session not in self._lines:
            return
        if plan_run(session.graph, list_operations()).has_updates:
            line = self._lines[session] or UserLine(sys.argv[0], 1)
            remove_observer(self)  # one warning is enough
            warnings.warn_explicit(
                f"The session that is opened at {line} trains, but it has none of the system's "
                "options: on a device it computes on the host. Use system.session(), or give it "
                "config=system.session_config().",
                AscendConfigWarning,
                line.file,
                line.number,
            )

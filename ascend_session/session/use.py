"""Use: what one block has of the system."""

import os
import threading
from typing import TYPE_CHECKING, Any, Collection, Mapping, Optional

from ascend_session.backends._tensorflow import destroy, graph_or_default
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendError
from ascend_session.failures.scanner import translate
from ascend_session.session.conditions import check_conditions, warn_of_unsupported
from ascend_session.session.others import reporting_wait
from ascend_session.session.signals import interruptible

if TYPE_CHECKING:
    from ascend_session.session.system import AscendSystem


class Use:
    """A place among the uses of a system, and a session if the block opens one.

    Attributes:
        system: The system.
        thread: The thread that has entered the block.
        session: The open ``tf.Session``; None before and afterwards.
        graph: The graph of that session.
        parameters: The keys and values of its NpuOptimizer entry.
        unsupported: What was warned of when it opened (`warn_of_unsupported`).
    """

    session: Any = None
    graph: Any = None
    parameters: Mapping[str, Any] = {}
    unsupported: Collection[str] = ()

    def __init__(self, system: "AscendSystem") -> None:
        self.system = system
        self.thread = threading.get_ident()
        self._is_default = False
        self._closing = threading.RLock()  # nothing may be freed that is being closed
        system.uses.append(self)

    def open_session(
        self,
        config: Optional[AscendConfig],
        graph: Optional[Any],
        device_id: Optional[int],
        base: Optional[Any],
        as_default: bool,
    ) -> Any:
        """Open a session; if ``as_default``, it and its graph become this thread's defaults."""
        system = self.system
        system.check_usable()
        self.graph = graph_or_default(graph)
        proto, self.parameters = system._options.of_session(system.job, config, base, device_id)
        check_conditions(self.graph, self.parameters, os.environ, system.size)
        self.unsupported = warn_of_unsupported(self.graph, self.parameters, os.environ)
        try:
            with interruptible():
                system._backend.bring_up()  # it may have gone down with the last session
        except AscendError:
            raise
        except Exception as error:
            raise translate(error, action="initialize_system before a session") from error
        system._record("bring up")
        self.session = system._backend.session(self.graph, proto)
        if as_default:
            self.session.__enter__()
            self._is_default = True
        device = self.parameters.get("session_device_id", system.device_id)
        system._record("session open", f"device {device}")
        return self.session

    def close(self, *failure: Any) -> None:
        """Take the session from the defaults of its thread, close and free it, if it is open."""
        with self._closing:
            if self.session is None:
                return
            with reporting_wait(self.session):
                try:
                    if self._is_default and self.thread == threading.get_ident():
                        self.session.__exit__(*(failure or (None, None, None)))
                finally:
                    try:
                        destroy(self.session)
                    finally:
                        self.session = None
                        self.system._record("session close")

    def interrupt(self) -> None:
        """Close the session while a thread may be blocked in it; wait for that run to end."""
        with self._closing:
            if self.session is not None:
                self.session.close()

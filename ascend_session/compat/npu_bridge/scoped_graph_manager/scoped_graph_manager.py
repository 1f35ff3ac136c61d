"""``npu_bridge.scoped_graph_manager.scoped_graph_manager``: blocks whose graphs are unloaded.

Source: scoped_graph_manager.py.
"""

from typing import Any

from ascend_session.compat.npu_bridge import tf_adapter
from ascend_session.compat.vendor_modules import mirror


class ScopedGraphManager:
    """A block in which variables are initialised; a device then frees what that took."""

    def __enter__(self) -> "ScopedGraphManager":
        self.start()
        return self

    def __exit__(self, exe_type: Any, exe_val: Any, exc_tb: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begins the block."""
        tf_adapter.EnableControl()

    def stop(self) -> None:
        """Ends it."""
        tf_adapter.Clear()


__getattr__, __all__ = mirror(globals(), "tf_adapter")

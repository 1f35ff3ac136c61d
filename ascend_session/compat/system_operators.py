"""The operators NPUInit and NPUShutdown, and whether the device is up for questions about ranks.

On a device GE, and HCCL with it, is up from the first session that runs something, or from NPUInit,
until NPUShutdown or until the last session ends. Here the system opens with the first session; a
session counts as running from its opening on.

Source: adapter_behaviour.md, "Life of GE in a process"; npu_sys_ctl_ops.cc.
"""

from typing import Any

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat import life, watching
from ascend_session.session.registry import current_system

__all__ = ["bring_up", "is_up", "npu_init", "npu_shutdown"]


class _Device:
    """What stays up without a session.

    Attributes:
        is_kept: By NPUInit or npu_resource_init.
        has_ender: Whether `life` tells this module of each end.
    """

    is_kept = False
    has_ender = False


def bring_up() -> None:
    """What NPUInit does; nothing if it was done before."""
    life.system()
    if not _Device.has_ender:
        _Device.has_ender = True
        life.on_shut_down(_let_go)
    _Device.is_kept = True


def _let_go() -> None:
    _Device.is_kept = False


def is_up() -> bool:
    """Whether ranks and groups can be asked for."""
    found = current_system()
    if found is None:
        return False
    if _Device.is_kept or life._Life.context is None:  # or the script has opened it itself
        return True
    return watching.is_watching() and bool(watching.book().open_sessions())


def npu_init(name: Any = None) -> Any:
    """The operation that initialises the system."""
    return _operation("NPUInit", bring_up, name)


def npu_shutdown(name: Any = None) -> Any:
    """The operation that ends it: sessions that are open now cannot run any more."""
    return _operation("NPUShutdown", life.shut_down, name)


def _operation(kind: str, function: Any, name: Any) -> Any:
    def called() -> None:
        function()

    tf = tf1()
    with tf.device("/device:CPU:0"):
        return tf.numpy_function(called, [], [], name=name or kind)

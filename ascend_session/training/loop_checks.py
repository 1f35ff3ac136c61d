"""What is checked before several steps are put into one run."""

from typing import Any

from ascend_session.backends._tensorflow import tf1
from ascend_session.config.checking import warn
from ascend_session.config.proto import read_entry
from ascend_session.errors import ConfigError, LifecycleError

__all__ = ["check_configured", "check_session", "checked_operation"]


def checked_operation(train_op: Any, n: Any) -> Any:
    """The operation that is to be looped.

    Raises:
        TypeError: If it is none, or ``n`` is no number.
        ConfigError: If ``n`` is not positive.
    """
    tf = tf1()
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"n must be an int, this is {n!r}.")
    if n < 1:
        raise ConfigError(f"n={n} must be at least 1: it is a number of steps.")
    operation = train_op.op if tf.is_tensor(train_op) else train_op
    if not isinstance(operation, tf.Operation):
        raise TypeError(
            f"train_op must be an operation or a tensor, as minimize() gives one; this is "
            f"{train_op!r}. Put several together with tf.group(...)."
        )
    return operation


def check_session(session: Any, graph: Any, n: int) -> None:
    """Refuses what is no ``tf.Session`` on this graph, or was opened for another number.

    Raises:
        TypeError: If it is no ``tf.Session``.
        LifecycleError: If it runs another graph.
        ConfigError: As `check_configured`.
    """
    if not isinstance(session, (tf1().Session, tf1().InteractiveSession)):
        raise TypeError(
            f"session must be a tf.Session, this is {type(session).__name__}. For a session with "
            "hooks give None, and IterationsPerLoopHook() among its hooks."
        )
    if session.graph is not graph:
        raise LifecycleError("train_op is in another graph than the session's.")
    check_configured(session, n)


def check_configured(session: Any, n: int) -> None:
    """Compares ``n`` with the session's configuration.

    Source: set_iteration_per_loop.md, "Must be equal to iterations_per_loop".

    Raises:
        ConfigError: If that says another number, or mixed computing.

    Warns:
        AscendConfigWarning: If it says none.
    """
    config = session._config
    entry = {} if config is None else read_entry(config)
    configured = entry.get("iterations_per_loop")
    if configured is None and n > 1:
        if entry.get("mix_compile_mode"):
            raise ConfigError(
                f"mix_compile_mode=True needs iterations_per_loop=1, not {n}.",
                hint="Leave out one of both.",
            )
        warn(
            f"This session's configuration does not say iterations_per_loop={n}; the vendor "
            "demands the same number in both."
        )
    if configured is not None and configured != n:
        raise ConfigError(
            f"This session was opened with iterations_per_loop={configured}, but the loop is to "
            f"make {n} steps.",
            hint="Say the same number in both places.",
        )

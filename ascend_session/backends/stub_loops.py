"""Several training steps in one run, without a device: the host makes them one after the other.

The run itself makes one step, and what is fetched beside the operation belongs to that one. An
operation behind it then runs the training operation in the same session for the others, in its own
thread: it needs none of the session's, of which there may be only one. Tried under TensorFlow
1.15.5, 2.15 and 2.21. A hook can make the others before the run, whose step is the last one then.
"""

import itertools
import weakref
from typing import Any, Dict, List, MutableMapping

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import LifecycleError, UnsupportedError

__all__ = ["StubLoop"]

# Which session a run belongs to; the number is in a local variable, of which each has its own.
_sessions: MutableMapping[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)

_NO_SESSION = (
    "This session does not know how many steps a run of IterationOp makes. Call "
    "training.iterations_per_loop(session, train_op, n) in it, after the variables' initialisers, "
    "or give IterationsPerLoopHook to a MonitoredTrainingSession."
)


class StubLoop:
    """The steps of one training operation.

    Args:
        train_op: The operation that makes one step.
        name: The name of the operation that makes several.
        steps: How many.

    Raises:
        UnsupportedError: For a graph whose step cannot be made several times in one run.
    """

    def __init__(self, train_op: Any, name: str, steps: int) -> None:
        tf = tf1()
        self._train_op = weakref.ref(train_op)
        self._steps = steps
        self._made: Dict[int, int] = {}
        self._numbers: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
        fed = _placeholders(train_op)
        self._fed = [weakref.ref(tensor) for tensor in fed]
        self._session_number = tf.Variable(
            0,
            name="ascend_session_loop/session",
            dtype=tf.int64,
            trainable=False,
            use_resource=True,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        with tf.control_dependencies([train_op]):
            number = self._session_number.read_value()
            done = tf.numpy_function(
                self._make_others, [number, *fed], tf.int64, name="ascend_session_loop/others"
            )
        self.operation = tf.group(done, name=name)

    def load(self, session: Any) -> None:
        """Makes the operation usable in ``session``, a ``tf.Session``."""
        number = next(_numbers)
        _sessions[number] = session
        self._numbers[session] = number
        initializer = self._session_number.initializer
        session.run(initializer, {initializer.inputs[1]: number})

    def make_before(self, session: Any, feeds: Any) -> None:
        """Makes all steps but the last, which the next run of the operation makes.

        Args:
            session: A session that was loaded.
            feeds: What that run is fed, or None.
        """
        for _ in range(self._steps - 1):
            session.run(self._train_op(), feeds)
        self._made[self._numbers[session]] = self._steps - 1

    def _make_others(self, number: Any, *values: Any) -> Any:
        """Makes all steps but the run's own; what is fed is the same for each, as on the device."""
        tf = tf1()
        session = _sessions.get(int(number))
        if session is None:
            raise LifecycleError(_NO_SESSION)
        feeds = {tensor(): value for tensor, value in zip(self._fed, values)}
        options = tf.RunOptions(inter_op_thread_pool=-1)  # in this thread
        for step in range(2 + self._made.pop(int(number), 0), self._steps + 1):
            try:
                session.run(self._train_op(), feeds, options=options)
            except Exception as error:
                where = f"Step {step} of {self._steps} in this run: "
                raise _as_py_func_may(error, where) from error
        return self._steps


def _as_py_func_may(error: Exception, where: str) -> Exception:
    """An exception that leaves a py_func as the error that ``error`` is, as far as it can."""
    errors = tf1().errors
    text = f"{where}{error}"
    for kind, stands_for in (
        (errors.OutOfRangeError, StopIteration),
        (errors.InvalidArgumentError, ValueError),
        (errors.ResourceExhaustedError, MemoryError),
        (errors.UnimplementedError, NotImplementedError),
    ):
        if isinstance(error, kind):
            return stands_for(text)
    return RuntimeError(text)


def _placeholders(train_op: Any) -> List[Any]:
    """The placeholders that the step reads.

    Raises:
        UnsupportedError: For one whose value cannot be handed on to the other steps.
    """
    found = []
    for operation in _before(train_op):
        if operation.type == "PlaceholderWithDefault":
            _check_default(operation)
        elif operation.type not in ("Placeholder", "PlaceholderV2"):
            continue
        tensor = operation.outputs[0]
        if tensor.dtype.base_dtype.name in ("resource", "variant"):
            raise UnsupportedError(
                f"The stub cannot hand on what is fed to {operation.name!r}, a "
                f"{tensor.dtype.base_dtype.name}, from one step of a loop to the next.",
                hint="Run the training operation itself, one step a run.",
            )
        found.append(tensor)
    return sorted(found, key=lambda tensor: str(tensor.name))


def _check_default(placeholder: Any) -> None:
    changing = [one for one in _before(placeholder.inputs[0].op) if one.op_def.is_stateful]
    if changing:
        raise UnsupportedError(
            f"The placeholder {placeholder.name!r} has a default that changes from step to step "
            f"({changing[0].name!r}): the stub cannot see whether it was fed.",
            hint="Read from the iterator itself, or run one step a run.",
        )


def _before(operation: Any) -> List[Any]:
    """The operation and everything that it needs."""
    seen = {operation}
    todo = [operation]
    while todo:
        one = todo.pop()
        for other in [*(tensor.op for tensor in one.inputs), *one.control_inputs]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return list(seen)

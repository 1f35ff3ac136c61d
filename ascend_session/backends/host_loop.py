"""Several training steps in one run, without a device: the host makes them one after the other.

The run itself makes one step, and what is fetched beside the operation belongs to that one. An
operation behind it then runs the training operation in the same session for the others, in its own
thread: it needs none of the session's, of which there may be only one. Tried under TensorFlow
1.15.5, 2.15 and 2.21. A hook can make the others before the run, whose step is the last one then,
unless another hook may feed the step: what that feeds is known only in the run.
"""

import itertools
import weakref
from typing import Any, Callable, Dict, Iterator, List, MutableMapping

from ascend_session.backends._tensorflow import outermost, tf1
from ascend_session.backends.base import Loop
from ascend_session.errors import LifecycleError, UnsupportedError
from ascend_session.vendor import ITERATION_OP

# Which session a run belongs to; the number is in a local variable, of which each has its own.
_sessions: MutableMapping[int, Any] = weakref.WeakValueDictionary()
_session_numbers = itertools.count(1)


class HostLoop(Loop):
    """The steps of one training operation.

    Args:
        train_op: The operation that makes one step.
        steps: How many a run makes.

    Raises:
        UnsupportedError: For a graph whose step cannot be made several times in one run.
    """

    def __init__(self, train_op: Any, steps: int) -> None:
        tf = tf1()
        self._train_op = weakref.ref(train_op)
        self._steps = steps
        self._steps_before: Dict[int, int] = {}  # the next run, by the number of its session
        self._numbers: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
        placeholders = _find_placeholders(train_op)
        self._placeholders: List[Callable[[], Any]] = [weakref.ref(each) for each in placeholders]
        with outermost(train_op.graph):
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
                others = tf.numpy_function(
                    self._make_others,
                    [number, *placeholders],
                    tf.int64,
                    name="ascend_session_loop/others",
                )
            self.operation = tf.group(others, name=ITERATION_OP)

    def load(self, session: Any) -> None:
        """Make the operation usable in ``session``, a ``tf.Session``."""
        number = next(_session_numbers)
        _sessions[number] = session
        self._numbers[session] = number
        initializer = self._session_number.initializer
        session.run(initializer, {initializer.inputs[1]: number})

    def make_before(self, session: Any, feeds: Any) -> None:
        """Make all steps but the last, which the next run of the operation makes.

        Does nothing if a placeholder is missing in ``feeds``: other hooks may feed it, which only
        the run itself sees. Then that makes all steps.
        """
        keys = tf1().nest.flatten(list(feeds or ()), expand_composites=True)
        fed = {getattr(key, "name", key) for key in keys}
        if not all(tensor().name in fed for tensor in self._placeholders):
            return
        for _ in range(self._steps - 1):
            session.run(self._train_op(), feeds)
        self._steps_before[self._numbers[session]] = self._steps - 1

    def _make_others(self, number: Any, *values: Any) -> Any:
        """Make all steps but the run's own; what is fed is the same for each, as on the device."""
        tf = tf1()
        session = _sessions.get(int(number))
        if session is None:
            raise LifecycleError(
                "This session does not know how many steps a run of IterationOp makes. Call "
                "training.iterations_per_loop(session, train_op, n) in it, after the variables' "
                "initialisers, or give IterationsPerLoopHook to a MonitoredTrainingSession."
            )
        feeds = {tensor(): value for tensor, value in zip(self._placeholders, values)}
        options = tf.RunOptions(inter_op_thread_pool=-1)  # in this thread
        for step in range(2 + self._steps_before.pop(int(number), 0), self._steps + 1):
            try:
                session.run(self._train_op(), feeds, options=options)
            except Exception as error:
                text = f"Step {step} of {self._steps} in this run: {error}"
                raise _for_py_func(error)(text) from error
        return self._steps


def _for_py_func(error: Exception) -> type:
    """Find the type of exception that leaves a py_func as the type that ``error`` has."""
    errors = tf1().errors
    for kind, stands_for in (
        (errors.OutOfRangeError, StopIteration),
        (errors.InvalidArgumentError, ValueError),
        (errors.ResourceExhaustedError, MemoryError),
        (errors.UnimplementedError, NotImplementedError),
    ):
        if isinstance(error, kind):
            return stands_for
    return RuntimeError


def _find_placeholders(train_op: Any) -> List[Any]:
    """List the placeholders that the step reads.

    Raises:
        UnsupportedError: For one whose value cannot be handed on to the other steps.
    """
    placeholders = []
    for operation in _walk_inputs(train_op):
        if operation.type == "PlaceholderWithDefault":
            _check_default(operation)
        elif operation.type not in ("Placeholder", "PlaceholderV2"):
            continue
        tensor = operation.outputs[0]
        dtype = tensor.dtype.base_dtype.name
        if dtype in ("resource", "variant"):
            raise UnsupportedError(
                f"The host cannot hand on what is fed to {operation.name!r}, a {dtype}, from one "
                "step of a loop to the next.",
                hint="Run the training operation itself, one step a run.",
            )
        placeholders.append(tensor)
    return sorted(placeholders, key=lambda tensor: str(tensor.name))


def _check_default(placeholder: Any) -> None:
    """Refuse a default that changes: whether something was fed, the host cannot see."""
    for operation in _walk_inputs(placeholder.inputs[0].op):
        if operation.op_def.is_stateful:
            raise UnsupportedError(
                f"The placeholder {placeholder.name!r} has a default that changes from step to "
                f"step ({operation.name!r}): the host cannot see whether it was fed.",
                hint="Read from the iterator itself, or run one step a run.",
            )


def _walk_inputs(operation: Any) -> Iterator[Any]:
    """Iterate over the operation and everything that it needs, each once."""
    seen = {operation}
    todo = [operation]
    while todo:
        current = todo.pop()
        yield current
        for needed in [*(tensor.op for tensor in current.inputs), *current.control_inputs]:
            if needed not in seen:
                seen.add(needed)
                todo.append(needed)

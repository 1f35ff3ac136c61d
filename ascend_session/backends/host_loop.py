"""Several training steps in one run, without a device: the host makes them one after the other.

The run itself makes one step, and what is fetched beside the operation belongs to that one. An
operation behind it then runs the training operation in the same session for the others, in its own
thread: it needs none of the session's, of which there may be only one. Tried under TensorFlow
1.15.5, 2.15 and 2.21. A hook can make the others before the run, whose step is the last one then,
unless another hook may feed the step: what that feeds is known only in the run.

What the host hands to a step is handed to all steps of a run, as by the adapter: what is fed, what
Python functions give, and the batch, unless ``enable_data_pre_proc`` has the device draw it
(guides/facts/options.md#iterations-per-loop).
"""

import itertools
import weakref
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    MutableMapping,
    NamedTuple,
    Optional,
    Set,
)

from ascend_session.backends._tensorflow import is_own, outermost, own_operators, tf1
from ascend_session.backends.base import Loop
from ascend_session.config.entry import read_entries, values_in_force
from ascend_session.errors import LifecycleError, UnsupportedError
from ascend_session.vendor import ITERATION_OP

# Which session a run belongs to; the number is in a local variable, of which each has its own.
_sessions: MutableMapping[int, Any] = weakref.WeakValueDictionary()
_session_numbers = itertools.count(1)

# What runs on the host and may give something else each time: how the types of operators begin.
# Queues are not among them, for the device has operators of its own for these.
_GET_NEXT = "IteratorGetNext"
_FUNCTIONS = ("PyFunc", "EagerPyFunc")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_CANNOT_BE_HANDED_ON = ("resource", "variant")


class HostLoop(Loop):
    """The steps of one training operation.

    Args:
        train_op: The operation that makes one step.
        steps: How many a run makes.
        session: A session in which it will run, if there is one; the loop is loaded there.

    Raises:
        UnsupportedError: For a graph whose step cannot be made several times in one run; then
            nothing was added to it.
    """

    def __init__(self, train_op: Any, steps: int, session: Optional[Any] = None) -> None:
        tf = tf1()
        self._train_op = weakref.ref(train_op)
        self._steps = steps
        self._steps_before: Dict[int, int] = {}  # the next run, by the number of its session
        self._numbers: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
        placeholders = _find_placeholders(train_op)
        self._placeholders: List[Callable[[], Any]] = [weakref.ref(each) for each in placeholders]
        self._inputs = HostInputs(train_op)
        if session is not None:
            self._inputs.open(session)
        with outermost(train_op.graph), own_operators(train_op.graph):
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
                    [number, *placeholders, *self._inputs.tensors()],
                    tf.int64,
                    name="ascend_session_loop/others",
                )
            self.operation = tf.group(others, name=ITERATION_OP)
        if session is not None:
            self.load(session)

    def load(self, session: Any) -> None:
        """Make the operation usable in ``session``, a ``tf.Session``.

        Raises:
            UnsupportedError: If the session's options have the host draw the batch, and it cannot
                be handed on from one step to the next.
        """
        self._inputs.open(session)
        number = next(_session_numbers)
        _sessions[number] = session
        self._numbers[session] = number
        initializer = self._session_number.initializer
        session.run(initializer, {initializer.inputs[1]: number})

    def make_before(self, session: Any, feeds: Any) -> Optional[Dict[Any, Any]]:
        """Make all steps but the last, which the next run of the operation makes.

        Does nothing if a placeholder is missing in ``feeds``: other hooks may feed it, which only
        the run itself sees. Then that makes all steps.

        Returns:
            What that run has to be fed besides, so that its step gets what the others got.
        """
        fed = _fed_names(feeds)
        if not all(tensor().name in fed for tensor in self._placeholders):
            return None
        same = self._inputs.draw(session, feeds)
        for _ in range(self._steps - 1):
            session.run(self._train_op(), {**(feeds or {}), **same})
        self._steps_before[self._numbers[session]] = self._steps - 1
        return same

    def _make_others(self, number: Any, *values: Any) -> Any:
        """Make all steps but the run's own."""
        tf = tf1()
        session = _sessions.get(int(number))
        if session is None:
            raise LifecycleError(
                "This session does not know how many steps a run of IterationOp makes. Call "
                "training.iterations_per_loop(session, train_op, n) in it, after the variables' "
                "initialisers, or give IterationsPerLoopHook to a MonitoredTrainingSession."
            )
        given, drawn = values[: len(self._placeholders)], values[len(self._placeholders) :]
        feeds = {tensor(): value for tensor, value in zip(self._placeholders, given)}
        feeds.update(self._inputs.repeat(session, drawn))
        options = tf.RunOptions(inter_op_thread_pool=-1)  # in this thread
        for step in range(2 + self._steps_before.pop(int(number), 0), self._steps + 1):
            try:
                session.run(self._train_op(), feeds, options=options)
            except Exception as error:
                text = f"Step {step} of {self._steps} in this run: {error}"
                raise _for_py_func(error)(text) from error
        return self._steps


class _Source(NamedTuple):
    """An operator on the host that gives a step its batch, or something else that changes.

    Attributes:
        name: The operator's name.
        tensors: Weak references to its outputs, as far as they can be handed on.
        is_offloaded: Whether ``enable_data_pre_proc`` has the device run it.
        obstacle: Why what a step reads of it cannot be handed on to the next step, if it cannot.
    """

    name: str
    tensors: List[Callable[[], Any]]
    is_offloaded: bool
    obstacle: str


class HostInputs:
    """What a step reads of operators on the host, which the steps of one run share.

    Args:
        train_op: The operation that makes one step.
    """

    def __init__(self, train_op: Any) -> None:
        self._sources = _find_sources(train_op)
        self._repeated: MutableMapping[Any, List[_Source]] = weakref.WeakKeyDictionary()

    def tensors(self) -> List[Any]:
        """List what can be handed on from one step to the next."""
        return [tensor() for source in self._sources for tensor in source.tensors]

    def open(self, session: Any) -> None:
        """Find out by the session's options what its steps share.

        Raises:
            UnsupportedError: If something of that cannot be handed on.
        """
        draws_on_device = _draws_on_device(session)
        repeated = [each for each in self._sources if not (each.is_offloaded and draws_on_device)]
        for source in repeated:
            if source.obstacle:
                raise UnsupportedError(
                    "The steps of a run all get the same from what the host computes, but "
                    f"{source.name!r} cannot be handed on from one step to the next: "
                    f"{source.obstacle}.",
                    hint="Read from an initializable iterator and set enable_data_pre_proc=True, "
                    "so that each step draws its own batch; or run one step a run.",
                )
        self._repeated[session] = repeated

    def draw(self, session: Any, feeds: Any) -> Dict[str, Any]:
        """Draw what the steps of a run share, as what they are to be fed.

        Args:
            session: A session that was opened.
            feeds: What the run is fed, or None; what is among it is not drawn.
        """
        names = [tensor().name for each in self._repeated[session] for tensor in each.tensors]
        fed = _fed_names(feeds)
        names = [name for name in names if name not in fed]
        return dict(zip(names, session.run(names, feeds)))

    def repeat(self, session: Any, values: Iterable[Any]) -> Dict[str, Any]:
        """Give what the later steps of a run are fed, of the values of all `tensors`."""
        named = dict(zip((tensor.name for tensor in self.tensors()), values))
        shared = [tensor().name for each in self._repeated[session] for tensor in each.tensors]
        return {name: named[name] for name in shared}


def _draws_on_device(session: Any) -> bool:
    """Tell whether the session's options offload the reading of an iterator."""
    config = session._config
    options = {} if config is None else values_in_force(read_entries(config)[0])
    return options.get("enable_data_pre_proc") is True


def _find_sources(train_op: Any) -> List[_Source]:
    """List the operators on the host of which the step reads something."""
    operations = list(_walk_inputs(train_op))
    read = {tensor.name for each in operations for tensor in each.inputs}
    waited_for = {before for each in operations for before in each.control_inputs}
    sources = []
    for operation in operations:
        if is_own(operation) or not operation.type.startswith((_GET_NEXT, *_FUNCTIONS)):
            continue
        if operation.type.startswith(_FUNCTIONS) and not _is_input(operation, read):
            continue
        outputs = [each for each in operation.outputs if _dtype(each) not in _CANNOT_BE_HANDED_ON]
        obstacle = ""
        if operation._get_control_flow_context() is not None:
            obstacle, outputs = "it is inside a condition or a loop", []
        elif operation in waited_for and not operation.type.startswith(_FUNCTIONS):
            obstacle = "the step waits for the operator itself"
        elif any(each.name in read for each in operation.outputs if each not in outputs):
            obstacle = "it gives sparse tensors, or others that Python cannot hold"
        # om_partition_subgraphs_pass.cc, FindNpuSupportCandidates
        is_offloaded = operation.type == _GET_NEXT and operation.inputs[0].op.type in (
            "Iterator",
            "IteratorV2",
        )
        tensors: List[Callable[[], Any]] = [weakref.ref(each) for each in outputs]
        sources.append(_Source(operation.name, tensors, is_offloaded, obstacle))
    return sorted(sources, key=lambda source: source.name)


def _is_input(function: Any, read: Collection[str]) -> bool:
    """Tell whether the step reads what a Python function gives, and it needs no variable for it."""
    return any(each.name in read for each in function.outputs) and not any(
        each.type in _VARIABLES for each in _walk_inputs(function)
    )


def _fed_names(feeds: Any) -> Set[str]:
    """Give the names of all tensors that a ``feed_dict``, or None, has a value for."""
    keys = tf1().nest.flatten(list(feeds or ()), expand_composites=True)
    return {getattr(key, "name", key) for key in keys}


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype.base_dtype.name)


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
        if _dtype(tensor) in _CANNOT_BE_HANDED_ON:
            raise UnsupportedError(
                f"The host cannot hand on what is fed to {operation.name!r}, a {_dtype(tensor)}, "
                "from one step of a loop to the next.",
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

"""Several training steps in one run, without a device: the host makes them one after the other.

A session's run that needs the looped operation makes all steps but the last before, and that with
everything that it fetches: what is fetched belongs to the last step, as on a device. This holds for
each way to such a run: hooks, names, and what depends on the operation. The device has the whole
run in its loop, so what it updates beside the step is updated in each step, too.

What the host hands to a step is handed to all steps of a run, as by the adapter: what is fed, what
Python functions give, and the batch, unless ``enable_data_pre_proc`` has the device draw it
(guides/facts/options.md#iterations-per-loop).
"""

import sys
import weakref
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    List,
    MutableMapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

from ascend_session.backends._tensorflow import (
    VARIABLES,
    is_marked,
    mark_operators,
    outermost,
    tf1,
    walk_inputs,
)
from ascend_session.backends.base import Loop
from ascend_session.backends.tf_sessions import list_fetched, replace_methods
from ascend_session.config.entry import read_entries, values_in_force
from ascend_session.errors import LifecycleError, UnsupportedError, warn_at
from ascend_session.text import join_words
from ascend_session.user_code import user_line
from ascend_session.vendor import ITERATION_OP

_LOOPS = "_ascend_session_host_loops"  # an attribute of a graph

# What runs on the host and may give something else each time: how the types of operators begin.
# Queues are not among them, for the device has operators of its own for these.
_GET_NEXT = "IteratorGetNext"
_FUNCTIONS = ("PyFunc", "EagerPyFunc")
_UPDATES = (
    *("Assign", "Scatter", "Apply", "SparseApply", "StridedSliceAssign", "CountUpTo"),
    *("ResourceScatter", "ResourceApply", "ResourceSparseApply", "ResourceStridedSliceAssign"),
    "ResourceCountUpTo",
)
_CANNOT_BE_HANDED_ON = ("resource", "variant")


class HostLoop(Loop):
    """The steps of one training operation. How many a run makes is in a local variable.

    Args:
        train_op: The operation that makes one step; if it has the name of looped operations, it is
            its own.
        steps: How many a run makes.
        session: A session in which it will run, if there is one; the loop is loaded there.

    Raises:
        UnsupportedError: For a graph whose step cannot be made several times in one run; then
            nothing was added to it.
    """

    def __init__(self, train_op: Any, steps: int, session: Optional[Any] = None) -> None:
        tf = tf1()
        _check_defaults(train_op)
        self._train_op = train_op
        self._configured_steps = steps
        self._has_warned = False
        self._inputs = HostInputs(train_op)
        self._of_step = set(walk_inputs(train_op))
        self._uses: MutableMapping[Any, _Use] = weakref.WeakKeyDictionary()
        if session is not None:
            self._inputs.open(session)
        graph = train_op.graph
        with outermost(graph), mark_operators(graph):
            self._steps = tf.Variable(
                0,
                name="ascend_session_loop/steps",
                dtype=tf.int64,
                trainable=False,
                use_resource=True,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
            )
            self._read_steps = self._steps.read_value()
            self.operation = train_op
            if train_op.name != ITERATION_OP:
                with tf.control_dependencies([train_op]):
                    self.operation = tf.no_op(name=ITERATION_OP)
        setattr(graph, _LOOPS, [*getattr(graph, _LOOPS, ()), self])
        _watch_runs()
        if session is not None:
            self.load(session)

    def load(self, session: Any, steps: int = 0) -> None:
        """Make the operation usable in ``session``, a ``tf.Session``.

        Args:
            session: The session.
            steps: How many steps a run makes there, if not as many as elsewhere.

        Raises:
            UnsupportedError: If the session's options have the host draw the batch, and it cannot
                be handed on from one step to the next.
        """
        self._inputs.open(session)
        initializer = self._steps.initializer
        session.run(initializer, {initializer.inputs[1]: steps or self._configured_steps})

    def note_run(self, session: Any, steps: int, fed: Sequence[str] = ()) -> None:
        """Note a run.

        Args:
            session: The session.
            steps: The steps that it has made, all of the loop unless it has failed.
            fed: Placeholders that the step reads and the run was fed, without scalars.

        Warns:
            AscendConfigWarning: Once in a loop, if batches are fed.
        """
        if fed and not self._has_warned and steps > 1:
            self._has_warned = True
            warn_at(user_line(sys._getframe()), f"A loop is run {describe_fed(fed, steps)}")

    def _list_fed(self, feeds: Any) -> List[str]:
        """List what the step reads of a ``feed_dict``, without scalars such as a learning rate."""
        graph, names = self._train_op.graph, []
        for name in sorted(_fed_names(feeds)):
            if isinstance(name, str):
                operation = graph.as_graph_element(
                    name, allow_tensor=True, allow_operation=False
                ).op
                if operation in self._of_step and operation.outputs[0].shape.rank != 0:
                    names.append(str(operation.name))
        return names

    def use_of(self, operation: Any) -> "_Use":
        """Find out what fetching an operation means for the loop."""
        if operation not in self._uses:
            needed = set(walk_inputs(operation))
            beside = needed - self._of_step - {self.operation}
            updates = any(each.type.startswith(_UPDATES) for each in beside)
            self._uses[operation] = _Use(self.operation in needed, updates)
        return self._uses[operation]

    def make_run(self, session: Any, fetches: Sequence[Any], feeds: Any, run: "_Run") -> Any:
        """Make all steps of a run.

        Args:
            session: The session.
            fetches: The operations that it fetches.
            feeds: What it is fed, or None.
            run: Makes a step: runs what it is given, by default all that is fetched, with feeds.

        Returns:
            What was fetched, of the last step.

        Raises:
            LifecycleError: If the session was not told the number of steps.
        """
        steps = int(run(self._read_steps, None))
        if steps == 0:
            raise LifecycleError(
                "This session does not know how many steps a run of IterationOp makes. Call "
                "training.iterations_per_loop(session, train_op, n) in it, after the variables' "
                "initialisers, or give IterationsPerLoopHook to a MonitoredTrainingSession."
            )
        step = [self._train_op, *(each for each in fetches if self.use_of(each).updates)]
        steps_made, fed = 0, self._list_fed(feeds)
        try:
            feeds = {**(feeds or {}), **self._inputs.draw(session, feeds, run)}
            for steps_made in range(steps - 1):
                what = f"Step {steps_made + 1} of {steps} in this run"
                _make_step(lambda: run(step, feeds), what)
            steps_made = steps - 1
            values = run(None, feeds)
            steps_made = steps
        finally:
            self.note_run(session, steps_made, fed)
        return values


def is_made_by_host(graph: Any) -> bool:
    """Return whether the host makes the steps of a graph's loops, each in a run of its own."""
    return bool(getattr(graph, _LOOPS, ()))


def describe_fed(names: Sequence[str], steps: int) -> str:
    """Say what it means that placeholders are fed to a run of so many steps."""
    return (
        f"with {join_words([repr(name) for name in names])} fed: all {steps} steps of a run train "
        "on the same values, as on a device. For a new batch in each step read an initializable "
        "iterator, with enable_data_pre_proc=True; or run one step a run."
    )


_Run = Callable[[Any, Any], Any]


class _Use(NamedTuple):
    """What fetching an operation means for a loop.

    Attributes:
        needs_loop: Whether it needs the looped operation.
        updates: Whether it updates variables beside the step's, which each step does then.
    """

    needs_loop: bool
    updates: bool


def _make_step(make: Callable[[], Any], place: str) -> None:
    """Make one step; say which one it was if TensorFlow raises."""
    try:
        make()
    except tf1().errors.OpError as error:
        message = f"{place}: {error.message}"
        raise type(error)(error.node_def, error.op, message) from error


def _watch_runs() -> None:
    """Have the runs of all sessions make the steps of loops, from now on; once in a process.

    What is replaced is behind ``session.run``, which a script may have looked up before its
    argument makes the first loop.
    """
    from tensorflow.python.client import session as module

    base = module.BaseSession
    if getattr(base._run, _LOOPS, False):
        return
    replace_methods()  # first: observers see the run of each step
    original_run, original_callable = base._run, base.make_callable
    original_setup, original_make = base.partial_run_setup, base._make_callable_from_options

    def run(
        self: Any, handle: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        if not getattr(self.graph, _LOOPS, ()):
            return original_run(self, handle, fetches, feed_dict, options, run_metadata)
        operations = list_fetched(self.graph, fetches)
        loops = _find_needed_loops(self.graph, operations)
        if not loops:
            return original_run(self, handle, fetches, feed_dict, options, run_metadata)
        if len(loops) > 1:
            names = ", ".join(loop.operation.name for loop in loops)
            raise UnsupportedError(
                f"One run would make several loops ({names}): the adapter supports one.",
                hint="Put the training operations together with tf.group, and loop that.",
            )

        def make(what: Any, feeds: Any) -> Any:
            if what is not None:
                return original_run(self, None, what, feeds, None, None)
            return original_run(self, None, fetches, feeds, options, run_metadata)

        return loops[0].make_run(self, operations, feed_dict, make)

    def make_callable(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        if not _find_loops_of(self.graph, fetches):
            return original_callable(self, fetches, feed_list, accept_options)

        def call(*values: Any, **options: Any) -> Any:
            return self.run(fetches, dict(zip(feed_list or (), values)), **options)

        return call

    def partial_run_setup(self: Any, fetches: Any, feeds: Any = None) -> Any:
        _refuse_loops(self.graph, fetches, "partial_run")
        return original_setup(self, fetches, feeds)

    def make_from_options(self: Any, options: Any) -> Any:
        _refuse_loops(self.graph, [*options.fetch, *options.target], "a callable of Keras")
        return original_make(self, options)

    setattr(run, _LOOPS, True)
    base._run, base.make_callable = run, make_callable
    base.partial_run_setup = partial_run_setup
    base._make_callable_from_options = make_from_options


def _find_needed_loops(graph: Any, operations: Sequence[Any]) -> List[HostLoop]:
    loops: Sequence[HostLoop] = getattr(graph, _LOOPS, ())
    return [loop for loop in loops if any(loop.use_of(each).needs_loop for each in operations)]


def _find_loops_of(graph: Any, fetches: Any) -> List[HostLoop]:
    if not getattr(graph, _LOOPS, ()):
        return []
    return _find_needed_loops(graph, list_fetched(graph, fetches))


def _refuse_loops(graph: Any, fetches: Any, way: str) -> None:
    for loop in _find_loops_of(graph, fetches):
        raise UnsupportedError(
            f"{loop.operation.name} makes several steps, which {way} cannot on the stub.",
            hint="Run it with session.run.",
        )


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
                    f"All steps of a run get the same values from the host, but {source.name!r} "
                    f"cannot be passed from one step to the next: {source.obstacle}.",
                    hint="Read from an initializable iterator and set enable_data_pre_proc=True, "
                    "so that each step draws its own batch; or run one step a run.",
                )
        self._repeated[session] = repeated

    def list_shared(self, session: Any) -> List[str]:
        """List the operators whose values the steps of a run in this session share."""
        return [each.name for each in self._repeated.get(session, ())]

    def draw(self, session: Any, feeds: Any, run: _Run) -> Dict[str, Any]:
        """Draw what the steps of a run share, as what they are to be fed.

        Args:
            session: A session that was opened.
            feeds: What the run is fed, or None; what is among it is not drawn.
            run: Runs what it is given, with feeds.
        """
        names = [tensor().name for each in self._repeated[session] for tensor in each.tensors]
        fed = _fed_names(feeds)
        names = [name for name in names if name not in fed]
        return dict(zip(names, run(names, feeds))) if names else {}


def _draws_on_device(session: Any) -> bool:
    """Tell whether the session's options offload the reading of an iterator."""
    config = session._config
    options = {} if config is None else values_in_force(read_entries(config)[0])
    return options.get("enable_data_pre_proc") is True


def _find_sources(train_op: Any) -> List[_Source]:
    """List the operators on the host of which the step reads something."""
    operations = list(walk_inputs(train_op))
    read = {tensor.name for each in operations for tensor in each.inputs}
    waited_for = {before for each in operations for before in each.control_inputs}
    sources = []
    for operation in operations:
        if is_marked(operation) or not operation.type.startswith((_GET_NEXT, *_FUNCTIONS)):
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
        each.type in VARIABLES for each in walk_inputs(function)
    )


def _fed_names(feeds: Any) -> Set[str]:
    """Give the names of all tensors that a ``feed_dict``, or None, has a value for."""
    keys = tf1().nest.flatten(list(feeds or ()), expand_composites=True)
    return {getattr(key, "name", key) for key in keys}


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype.base_dtype.name)


def _check_defaults(train_op: Any) -> None:
    """Refuse a placeholder with a default that the host would draw although it is fed.

    Raises:
        UnsupportedError: For a default that changes from step to step.
    """
    defaults = [each for each in walk_inputs(train_op) if each.type == "PlaceholderWithDefault"]
    for placeholder in sorted(defaults, key=lambda operation: str(operation.name)):
        for operation in walk_inputs(placeholder.inputs[0].op):
            if operation.op_def.is_stateful:
                raise UnsupportedError(
                    f"The placeholder {placeholder.name!r} has a default that changes from step to "
                    f"step ({operation.name!r}): the host would draw it although it is fed.",
                    hint="Read from the iterator itself, or run one step a run.",
                )

"""What the vendor's hooks and estimators share: loops of steps, summaries, values of tensors.

A loop has variables, and a number of steps that may be said late. A host call of NPUEstimatorSpec
is a function that makes summaries of a step's tensors: on a device they are sent to the host, where
a thread runs what the function has made; here that is part of the step itself.

Sources: npu/util.py (``create_or_get_var``, ``IterationPerLoop``), npu_hook.py; npu_estimator.py,
``_OutfeedHostCall``.
"""

import os
from typing import Any, Dict, List, Optional, Sequence, Set

from tensorflow.core.framework import variable_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops, summary_ops_v2
from tensorflow.python.util import function_utils, tf_inspect

from ascend_session.backends.host_loop import HostLoop
from ascend_session.compat.sessions import session_log
from ascend_session.compat.tensorflow_names import tf
from ascend_session.config.adapter_checks import values_in_force
from ascend_session.config.entry import ENTRY_NAME, read_entries
from ascend_session.errors import warn
from ascend_session.session.conditions import refuse_one_shot

_SCOPE = "npu_runconfig"
_ATTRIBUTE = "_npu_bridge_loop"  # of a graph

LOOP_VARIABLES = ("iterations_per_loop", "loop_cond", "zero", "one")

_registered: Set[str] = set()


def register_loop_variable(name: str) -> None:
    """Register how the collection of such a variable is written into a meta graph."""
    to_proto = getattr(resource_variable_ops, "_to_proto_fn", None)
    if name in _registered or to_proto is None:
        return
    _registered.add(name)
    ops.register_proto_function(
        f"{_SCOPE}_{name}",
        proto_type=variable_pb2.VariableDef,
        to_proto=to_proto,
        from_proto=resource_variable_ops._from_proto_fn,
    )


def loop_variable(name: str) -> Any:
    """Give the variable of that name in the default graph; make it if there is none.

    Raises:
        RuntimeError: If it has several.
    """
    collection = f"{_SCOPE}_{name}"
    variables = tf.get_default_graph().get_collection(collection)
    if len(variables) > 1:
        raise RuntimeError(
            f"The graph has {len(variables)} variables in the collection {collection}."
        )
    if variables:
        return variables[0]
    with tf.variable_scope(_SCOPE, reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            name,
            initializer=tf.zeros_initializer(),
            shape=[],
            dtype=tf.int64,
            trainable=False,
            collections=[collection, tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


def plain_session(session: Any) -> Any:
    """Give the ``tf.Session`` behind one with hooks."""
    inner = getattr(session, "_tf_sess", None)
    return session if inner is None else inner()


class LateLoop(HostLoop):
    """A looped operation that learns in each session how many steps a run makes.

    Args:
        train_op: The operation that makes one step; so does a run where `load_with` was not called.
    """

    def __init__(self, train_op: Any) -> None:
        self._steps_by_session: Dict[int, int] = {}
        super().__init__(train_op, steps=1)

    def load_with(self, session: Any, steps: int) -> None:
        """Make the operation usable in ``session``, with so many steps a run."""
        session = plain_session(session)
        self.load(session)
        self._steps_by_session[self._numbers[session]] = steps

    def _make_others(self, number: Any, *values: Any) -> Any:
        self._steps = self._steps_by_session.get(int(number), 1)
        for session, each in list(self._numbers.items()):
            if each == int(number):
                session_log().note_loop(session, self._steps, runs=1)
        return super()._make_others(number, *values)


def check_loop(session: Any, steps: int) -> None:
    """Compare a loop with what the session reads, and with its entry; the report counts its runs.

    Raises:
        LifecycleError: For a graph with a one-shot iterator, where the adapter aborts.

    Warns:
        AscendConfigWarning: If the entry says another number; the vendor demands the same.
    """
    if steps == 1:
        return
    session_log().note_loop(session, steps)
    refuse_one_shot(session.graph, steps)
    proto = getattr(session, "_config", None)
    options = {} if proto is None else values_in_force(read_entries(proto)[0])
    entry_steps = options.get("iterations_per_loop", 1)
    if entry_steps != steps:
        warn(
            f"Each run makes {steps} steps, but the session's {ENTRY_NAME} entry says "
            f"iterations_per_loop={entry_steps}; the vendor demands the same number in both."
        )


def looped(session: Any, train_op: Any, steps: int) -> Any:
    """Give the operation of which a run makes so many steps in ``session``.

    A graph has one for an operation; for another operation, or another session, call it again.

    Raises:
        LifecycleError: As `check_loop`.
        UnsupportedError: For a step that cannot be made several times in a run.
    """
    check_loop(session, steps)
    graph = train_op.graph
    known: Dict[str, LateLoop] = getattr(graph, _ATTRIBUTE, {})
    setattr(graph, _ATTRIBUTE, known)
    if train_op.name not in known:
        known[train_op.name] = LateLoop(train_op)
    loop = known[train_op.name]
    loop.load_with(session, steps)
    return loop.operation


def initializers() -> List[Any]:
    """List the operations that open the default graph's writers."""
    return list(summary_ops_v2.summary_writer_initializer_op())


def flush_operations(opening: Sequence[Any]) -> List[Any]:
    """Make for each of them an operation that writes what its writer still has."""
    return [summary_ops_v2.flush(writer=operation.inputs[0]) for operation in opening]


def check_host_calls(host_calls: Dict[str, Any]) -> None:
    """Check pairs of a function and its tensors, as the vendor's does.

    Raises:
        ValueError: If it is no pair, or its second part is neither list nor dict.
        TypeError: If its first part cannot be called.
        RuntimeError: If the function takes another number of tensors.
    """
    for name, call in host_calls.items():
        if not isinstance(call, (tuple, list)):
            raise ValueError(f"{name} should be tuple or list")
        if len(call) != 2:
            raise ValueError(f"{name} should have two elements.")
        if not callable(call[0]):
            raise TypeError(f"{name}[0] should be callable.")
        if not isinstance(call[1], (tuple, list, dict)):
            raise ValueError(f"{name}[1] should be tuple or list, or dict.")
        if isinstance(call[1], dict):
            continue
        takes_any = tf_inspect.getfullargspec(call[0]).varargs is not None
        count = len(function_utils.fn_args(call[0]))
        if not takes_any and count != len(call[1]):
            raise RuntimeError(
                f"In NPUEstimatorSpec.{name}, length of tensors {len(call[1])} does not match "
                f"method args of the function, which takes {count}."
            )


def host_call_operations(host_call: Any, after: List[Any]) -> List[Any]:
    """Call the function with the step's tensors.

    Args:
        host_call: The function, and its tensors in a list or dict.
        after: What the tensors wait for.

    Returns:
        The operations and tensors that it gives.
    """
    function, tensors = host_call
    names = list(tensors) if isinstance(tensors, dict) else None
    given = list(tensors) if names is None else list(tensors.values())
    with tf.control_dependencies(after):
        copies = [tf.identity(tensor) for tensor in given]
    # What the function makes besides, a writer's initialiser for one, must not wait for a step.
    results = function(*copies) if names is None else function(**dict(zip(names, copies)))
    return [result for result in tf.nest.flatten(results) if result is not None]


_Hook: Any = tf.train.SessionRunHook
_TensorHook: Any = tf.train.LoggingTensorHook

_NEVER = 1 << 31


class NPUOutputTensorHook(_TensorHook):  # type: ignore[misc]
    """Hands the values of tensors to a function, those of several runs at a time.

    Args:
        tensors: ``{tag: tensor or name}``, a list, or None.
        dependencies: What has to be done before the values are taken.
        output_fn: Is called with a list of dicts, one a run.
        output_every_n_steps: After so many runs, and at the end.
    """

    def __init__(
        self,
        tensors: Any,
        dependencies: Any = None,
        output_fn: Any = None,
        output_every_n_steps: int = 0,
    ) -> None:
        self._tensors: Optional[Any] = None
        self._output_fn = output_fn
        self._output_every_n_steps = output_every_n_steps
        self._output_list: List[Dict[str, Any]] = []
        self._iter_count = 0
        if tensors is None:
            return
        self._tensors = tensors
        if dependencies is not None:
            if not isinstance(dependencies, (tuple, list)):
                dependencies = [dependencies]
            with tf.control_dependencies(dependencies):
                self._tensors = {tag: tf.identity(tensor) for tag, tensor in tensors.items()}
        super().__init__(self._tensors, every_n_iter=_NEVER)

    def begin(self) -> None:
        """Find the tensors."""
        if self._tensors is not None:
            super().begin()

    def before_run(self, run_context: Any) -> Any:
        """Fetch them."""
        return None if self._tensors is None else tf.train.SessionRunArgs(self._current_tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keep their values, and hand them over when it is time to.

        Raises:
            ZeroDivisionError: If ``output_every_n_steps`` is 0, as with the vendor's.
        """
        if self._tensors is not None:
            self._output_list.append({tag: run_values.results[tag] for tag in self._tag_order})
        self._iter_count += 1
        if self._iter_count % self._output_every_n_steps == 0:
            self._call_output_fn()

    def end(self, session: Any) -> None:
        """Hand over what is left."""
        if self._output_list:
            self._call_output_fn()

    def _call_output_fn(self) -> None:
        self._output_fn(self._output_list)
        del self._output_list[:]


class TellMeStepOrLossHook(_Hook):  # type: ignore[misc]
    """Writes into the environment how far training is; see `training.TellMeStepOrLossHook`.

    Raises:
        ValueError: If neither a step nor a loss is given.
    """

    def __init__(
        self, step: Any = None, total_step: Any = None, loss: Any = None, final_loss: Any = None
    ) -> None:
        if step is None and loss is None:
            raise ValueError("One of step or loss must be specified")
        self._fetches = {"STEP_NOW": step, "LOSS_NOW": loss}
        for name, given, value in (
            ("STEP_NOW", step, "0"),
            ("TOTAL_STEP", total_step, total_step),
            ("LOSS_NOW", loss, "0.0"),
            ("TARGET_LOSS", final_loss, final_loss),
        ):
            if given is not None:
                os.environ[name] = str(value)

    def before_run(self, run_context: Any) -> Any:
        """Fetch the step and the loss."""
        fetches = {name: each for name, each in self._fetches.items() if each is not None}
        return tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write their values into the environment.

        Raises:
            ValueError: If none of them is a tensor.
        """
        values = {name: str(each) for name, each in run_values.results.items() if each is not None}
        if not values:
            raise ValueError(f"{self._fetches} has no valid tensor.")
        os.environ.update(values)

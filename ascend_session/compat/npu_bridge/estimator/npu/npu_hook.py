"""``npu_bridge.estimator.npu.npu_hook``: what happens around a session's runs.

Source: npu_hook.py.
"""

import os
from typing import Any, Dict, List, Optional

from tensorflow.python.ops import summary_ops_v2

from ascend_session.compat.loops import LateLoop, check_loop, find_loop, plain_session
from ascend_session.compat.npu_bridge.estimator.npu import util
from ascend_session.compat.optimizers import broadcast_values
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import keep_arguments, mirror, with_signature
from ascend_session.training.progress import note_step_of_hook
from ascend_session.training.step_hook import StepHook
from ascend_session.vendor import ITERATION_OP

_Hook: Any = tf1.train.SessionRunHook
_SaverHook: Any = tf1.train.CheckpointSaverHook

_TensorHook: Any = tf1.train.LoggingTensorHook

_NEVER = 1 << 31

for _name in util.LOOP_VARIABLES:
    util.register_func(_name)


class NPUShutDownHook(_Hook):  # type: ignore[misc]
    """Ends the device when the session ends."""

    def __init__(self, scaffold: Any = None) -> None:
        super().__init__()
        self._scaffold = scaffold
        self._shutdown_npu_op: Any = None

    def begin(self) -> None:
        """Add the shutdown operation."""
        from ascend_session.compat.npu_bridge.estimator import npu_ops

        if getattr(self._shutdown_npu_op, "graph", None) is not tf1.get_default_graph():
            self._shutdown_npu_op = npu_ops.NPUShutdown()

    def end(self, session: Any) -> None:
        """Run the shutdown operation."""
        session.run(self._shutdown_npu_op)


class NPUBroadcastGlobalVariablesHook(StepHook):
    """Broadcasts the root's trainable variables to all ranks in a new session.

    Other variables are not broadcast, as with the vendor's hook.
    `training.BroadcastGlobalVariablesHook` broadcasts all.

    Args:
        root_rank: The rank whose values are broadcast.
        index: This rank; not used.
    """

    def __init__(self, root_rank: Any = None, index: Any = None) -> None:
        self._root_rank = root_rank
        self._index = index
        self._bcast_op: Any = None
        size = util.get_ranksize()
        self._rank_size = int(size) if size.isdigit() else 1

    def begin(self) -> None:
        """Add the broadcast."""
        super().begin()
        if self._rank_size > 1:
            self._bcast_op = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run the broadcast."""
        if self._rank_size > 1:
            session.run(self._bcast_op)


class NPUCheckpointSaverHook(_SaverHook):  # type: ignore[misc]
    """``tf.train.CheckpointSaverHook``, which logs the global step after each run."""

    @with_signature(
        "(checkpoint_dir, save_secs=None, save_steps=None, saver=None, "
        "checkpoint_basename='model.ckpt', scaffold=None, listeners=None)"
    )
    def __init__(self, **given: Any) -> None:
        """Take the arguments of ``tf.train.CheckpointSaverHook``."""
        super().__init__(**given)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log the step, then save if it is due."""
        step = run_context.session.run(self._global_step_tensor)
        tf1.logging.info("global_step...%s", step)
        note_step_of_hook(step)
        super().after_run(run_context, run_values)


class SetIterationsVarHook(StepHook):
    """Has each run of the operation ``IterationOp`` make several steps.

    Hooks and other fetches see the last step, as on a device.

    Args:
        iterations_per_loop: Number of steps.
    """

    def __init__(self, iterations_per_loop: Any = None) -> None:
        self._iterations_per_loop = iterations_per_loop
        self._variables: List[Any] = []
        self._loop: Optional[LateLoop] = None

    def begin(self) -> None:
        """Create the loop, and the variables of the device's loop, which nothing reads here.

        Raises:
            UnsupportedError: For a step that cannot be repeated in a run.
        """
        super().begin()
        self._variables = [util.create_or_get_var(name) for name in util.LOOP_VARIABLES]
        graph = tf1.get_default_graph()
        names = [operation.name for operation in graph.get_operations()]
        if self._iterations_per_loop > 1 and ITERATION_OP in names:
            self._loop = find_loop(graph.get_operation_by_name(ITERATION_OP))

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Set the number of steps in the session.

        Raises:
            LifecycleError: With a one-shot iterator, where the adapter aborts.
            UnsupportedError: For a batch that cannot be kept for the next step.

        Warns:
            AscendConfigWarning: If the session's entry says another number.
        """
        check_loop(plain_session(session), self._iterations_per_loop)
        if self._loop is not None:
            self._loop.load(plain_session(session), self._iterations_per_loop)
        for variable, value in zip(self._variables, (self._iterations_per_loop - 1, 0, 0, 1)):
            session.run(variable.initializer, {variable.initializer.inputs[1]: value})
        print("load iterations_per_loop value -----------")
        print(session.run(self._variables[0]))


def broadcast_global_variables(root_rank: Any, index: Any = None) -> Any:
    """Return an operation that sends the root's trainable variables to all ranks.

    Args:
        root_rank: The rank whose values are broadcast.
        index: Used by releases before 2022 only.
    """
    return broadcast_values(tf1.trainable_variables(), root_rank)


class NPULogOutfeedSessionHook(_Hook):  # type: ignore[misc]
    """Prints what operators of the device log; there are none here.

    Args:
        output_stream: Where to.
    """

    __init__ = keep_arguments("(output_stream)")


class NPUInfeedOutfeedSessionHook(_Hook):  # type: ignore[misc]
    """Runs the operations of a host call, and opens and flushes its summary writers.

    On a device a thread does this with the tensors that the device sends; here it is part of each
    run.

    Args:
        dequeue_ops: The operations that the host call's function returned.
        channel_name: The channel's name; there is none here.
    """

    def __init__(self, dequeue_ops: Any, channel_name: Any) -> None:
        self._dequeue_ops = dequeue_ops
        self._channel_name = channel_name
        self._init_ops: List[Any] = []
        self._finalize_ops: List[Any] = []

    def begin(self) -> None:
        """Find the summary writers."""
        self._init_ops = list(summary_ops_v2.summary_writer_initializer_op())
        self._finalize_ops = [
            summary_ops_v2.flush(writer=operation.inputs[0]) for operation in self._init_ops
        ]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Open the summary writers."""
        session.run(self._init_ops)

    def before_run(self, run_context: Any) -> Any:
        """Add the host call's operations to each run."""
        fetches = {} if self._dequeue_ops is None else self._dequeue_ops
        return tf1.train.SessionRunArgs(fetches)

    def end(self, session: Any) -> None:
        """Flush the summary writers."""
        session.run(self._finalize_ops)


class NPUOutputTensorHook(_TensorHook):  # type: ignore[misc]
    """Passes the values of tensors to a function, for several runs at a time.

    Args:
        tensors: ``{tag: tensor or name}``, a list, or None.
        dependencies: Operations that run before the values are read.
        output_fn: Called with a list of dicts, one per run.
        output_every_n_steps: Number of runs between two calls; the last call is at the end.
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
            with tf1.control_dependencies(dependencies):
                self._tensors = {tag: tf1.identity(tensor) for tag, tensor in tensors.items()}
        super().__init__(self._tensors, every_n_iter=_NEVER)

    def begin(self) -> None:
        """Find the tensors."""
        if self._tensors is not None:
            super().begin()

    def before_run(self, run_context: Any) -> Any:
        """Fetch the tensors."""
        return None if self._tensors is None else tf1.train.SessionRunArgs(self._current_tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keep the values, and pass them on when it is due.

        Raises:
            ZeroDivisionError: If ``output_every_n_steps`` is 0, as with the vendor's.
        """
        if self._tensors is not None:
            self._output_list.append({tag: run_values.results[tag] for tag in self._tag_order})
        self._iter_count += 1
        if self._iter_count % self._output_every_n_steps == 0:
            self._call_output_fn()

    def end(self, session: Any) -> None:
        """Pass on the values that are left."""
        if self._output_list:
            self._call_output_fn()

    def _call_output_fn(self) -> None:
        self._output_fn(self._output_list)
        del self._output_list[:]


class TellMeStepOrLossHook(_Hook):  # type: ignore[misc]
    """Writes step or loss into the environment; see `training.TellMeStepOrLossHook`.

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
        return tf1.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write their values into the environment.

        Raises:
            ValueError: If none of them is a tensor.
        """
        values = {name: str(each) for name, each in run_values.results.items() if each is not None}
        if not values:
            raise ValueError(f"{self._fetches} has no valid tensor.")
        os.environ.update(values)


__getattr__, __all__ = mirror(
    globals(),
    "os threading time Queue tf config_pb2 contrib_summary logging session_run_hook "
    "basic_session_run_hooks util_lib npu_ops hccl_ops util",
)

"""Save a checkpoint when a scheduler ends the job by a signal.

Schedulers send SIGTERM to a job whose machine they need, and SIGKILL some time later. Ranks get it
at different moments. So every training step has an allreduce of four bytes, by which all ranks
learn that one of them got it, and stop after the same step.
"""

import logging
import os
import signal
import threading
from typing import Any, Dict, List, Optional, Set

from ascend_session import hccl
from ascend_session.backends._tensorflow import tf1, walk_inputs
from ascend_session.errors import CollectiveError, LifecycleError
from ascend_session.rank_folder import RANK_FOLDER
from ascend_session.session.graphs import job_rank, job_size, note_size
from ascend_session.training.progress import note_first_step, note_step_of_hook
from ascend_session.training.step_hook import StepHook

_logger = logging.getLogger(__name__)
_NAME = "SaveOnPreemptionHook"


class SaveOnPreemptionHook(StepHook):
    """Saves a checkpoint after the training step during which SIGTERM came, then exits with 143.

    For ``MonitoredTrainingSession`` and estimators; use it on all ranks. All ranks stop after the
    same step, at most one later, and rank 0 saves. Step and save have to be over before SIGKILL
    (``ascend-session launch --grace``). While its session is open, the hook handles SIGTERM in
    place of any other handler; further SIGTERMs have no effect. Ctrl-C works as without the hook,
    unless ``on_interrupt`` is True.

    The hook also reports steps to the launcher. It checks that all ranks begin with the same step,
    so put it after `BroadcastGlobalVariablesHook`.

    Args:
        checkpoint_dir: Folder of the checkpoint. Only rank 0 writes there; others may have None.
        saver: The ``tf.train.Saver``; None means that of ``scaffold``, or of the graph, or a new
            one for all variables. A sharded saver, which the adapter may fail to run, is replaced
            by one that is not (guides/facts/adapter.md#checkpoints).
        scaffold: The ``tf.train.Scaffold`` of the session, if it has one.
        checkpoint_basename: As in ``tf.train.CheckpointSaverHook``.
        on_interrupt: Whether Ctrl-C (SIGINT) saves as well; the exit code is 130 then. A second
            Ctrl-C works as without the hook.

    Raises:
        TypeError: If the folder is no path. On rank 0 also if it is None or empty, when the session
            is created.
        ValueError: If both a saver and a scaffold are given.
    """

    def __init__(
        self,
        checkpoint_dir: Optional[str],
        saver: Optional[Any] = None,
        scaffold: Optional[Any] = None,
        checkpoint_basename: str = "model.ckpt",
        on_interrupt: bool = False,
    ) -> None:
        folder: Any = checkpoint_dir
        if isinstance(folder, os.PathLike):
            folder = os.fspath(folder)
        if folder is not None and not isinstance(folder, str):
            raise TypeError(f"checkpoint_dir must be a folder's path, this is {checkpoint_dir!r}.")
        self._directory = folder
        if saver is not None and scaffold is not None:
            raise ValueError(f"{_NAME} takes a saver or a scaffold, which has one; not both.")
        self._given_saver = saver
        self._scaffold = scaffold
        self._basename = checkpoint_basename
        self._signals = (signal.SIGTERM, signal.SIGINT) if on_interrupt else (signal.SIGTERM,)
        self._saver: Any = None
        self._is_new = False  # True if the saver is the hook's own, and not the session's
        self._saved: Optional[Set[str]] = None  # names of the variables, if it should save all
        self._saving_hook: Any = None
        self._size = 1
        self._is_first_rank = True
        self._step: Any = None
        self._request: Any = None
        self._agreed: Any = None
        self._steps: Any = None
        self._training_runs: Any = None
        self._coord: Any = None
        self._previous: Dict[int, Any] = {}
        self._requested = 0  # number of the signal that came
        self._is_ending = False

    def set_params(self, params: Any = None) -> None:
        """Refuse to be a callback of Keras.

        Raises:
            LifecycleError: Always.
        """
        raise LifecycleError(
            f"{_NAME} is a hook of sessions, and Keras takes callbacks: its training has no "
            "session whose steps the hook could count.",
            hint="Train in a tf.train.MonitoredTrainingSession, or make an estimator of the model "
            "(tf.keras.estimator.model_to_estimator). Otherwise save with ModelCheckpoint.",
        )

    # Which of these Keras uses first depends on its release.
    set_model = _implements_train_batch_hooks = set_params
    _implements_test_batch_hooks = _implements_predict_batch_hooks = set_params

    def begin(self) -> None:
        """Add the allreduce to the graph, before it is finalized.

        Raises:
            TypeError: On rank 0, which saves, if there is no folder.
            LifecycleError: If the graph has no global step, no operation that advances it, or
                several savers.
        """
        tf = tf1()
        graph = tf.get_default_graph()
        self._size = job_size(_NAME)
        self._is_first_rank = job_rank() == 0
        if self._is_first_rank and not self._directory:
            raise TypeError(
                f"checkpoint_dir must be a folder's path on rank 0, this is {self._directory!r}."
            )
        self._step = tf.train.get_global_step()
        self._training_runs = _TrainingRuns(graph, self._step)
        if self._size > 1:
            note_size(graph, self._size)
            with tf.name_scope(_NAME):
                self._request = tf.placeholder(tf.int32, [1], name="request")
                self._agreed = hccl.allreduce(self._request, "max", fusion=0)
                step = tf.cast(tf.reshape(self._step.read_value(), [1]), tf.int64)
                self._steps = hccl.allgather(step, self._size)
        if self._is_first_rank:
            self._saver = self._find_saver(graph)
            self._saving_hook = tf.train.CheckpointSaverHook(
                self._directory,
                save_secs=None,
                save_steps=1,
                saver=self._saver,
                checkpoint_basename=self._basename,
            )
            self._saving_hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Compare the ranks' global steps, and install the signal handlers.

        Raises:
            CollectiveError: If a rank begins with another step than rank 0.
            LifecycleError: Outside the main thread, where no signals can be handled; or if a later
                hook has added variables that would not be saved.
        """
        if threading.current_thread() is not threading.main_thread():
            raise LifecycleError(
                f"{_NAME} takes SIGTERM, which only the main thread can.",
                hint="Create the session in the main thread.",
            )
        if self._is_first_rank:
            self._check_saved(session.graph)
        if self._steps is not None:
            _check_steps(session.run(self._steps).tolist())
        if self._is_first_rank:
            note_first_step(int(session.run(self._step)))
        self._coord = coord
        for number in self._signals:
            if signal.getsignal(number) != self._note_signal:
                self._previous[number] = signal.signal(number, self._note_signal)

    def before_run(self, run_context: Any) -> Any:
        """Add the allreduce, and the step for the launcher, to a run that trains."""
        if run_context.original_args.fetches not in self._training_runs:
            return None
        fetches = {}
        if RANK_FOLDER in os.environ:
            # In every run: one that fetches something else is another graph to compile.
            fetches["step"] = self._step
        if self._size == 1:
            return tf1().train.SessionRunArgs(fetches) if fetches else None
        fetches["agreed"] = self._agreed
        return tf1().train.SessionRunArgs(fetches, {self._request: [self._requested]})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save and exit if a rank got a signal.

        Raises:
            SystemExit: With code 143, or 130 after Ctrl-C.
        """
        results = run_values.results or {}
        if "step" in results:
            note_step_of_hook(results["step"])
        agreed = self._requested
        if self._size > 1:
            agreed = int(results["agreed"][0]) if "agreed" in results else 0
        if agreed:
            self._is_ending = True
            self._save(run_context.session, signal.Signals(agreed))
            raise SystemExit(128 + agreed)

    def end(self, session: Any) -> None:
        """Restore the signal handlers; raise a signal again that came after the last step."""
        self._restore_handlers()
        if self._requested:
            os.kill(os.getpid(), self._requested)

    def _save(self, session: Any, reason: signal.Signals) -> None:
        if self._saving_hook is not None:
            self._keep_earlier_checkpoints()
            self._saving_hook.end(session)
            _logger.warning(
                "%s: saved step %d in %s; the job exits with code %d.",
                *(reason.name, int(session.run(self._step)), self._directory, 128 + reason),
            )
        if self._size > 1:  # the launcher ends all ranks when the first exits, so wait for the save
            session.run(self._agreed, {self._request: [int(reason)]})

    def _find_saver(self, graph: Any) -> Any:
        """Return the saver to use, before the session creates its own."""
        tf = tf1()
        savers = [] if self._given_saver is None else [self._given_saver]
        if self._scaffold is not None and self._scaffold.saver is not None:
            savers = [self._scaffold.saver]
        savers = savers or graph.get_collection(tf.GraphKeys.SAVERS)
        if len(savers) > 1:
            raise LifecycleError(
                f"The graph has {len(savers)} savers.", hint=f"Write {_NAME}(..., saver=...)."
            )
        saver = savers[0] if savers else tf.train.Saver(sharded=True, defer_build=True)
        if type(saver) is not tf.train.Saver or not saver._sharded:
            return saver
        self._is_new = True
        if saver._var_list is None:
            self._saved = {variable.name for variable in tf.global_variables()}
        return tf.train.Saver(
            saver._var_list,
            max_to_keep=saver._max_to_keep,
            keep_checkpoint_every_n_hours=saver._keep_checkpoint_every_n_hours,
            save_relative_paths=saver._save_relative_paths,
        )

    def _check_saved(self, graph: Any) -> None:
        """Refuse variables that a later hook has added: a checkpoint without them is useless."""
        if self._saved is None:
            return
        names = {each.name for each in graph.get_collection(tf1().GraphKeys.GLOBAL_VARIABLES)}
        missing = sorted(names - self._saved)
        if missing:
            raise LifecycleError(
                f"{_NAME} would not save {', '.join(missing)}, which a later hook has made.",
                hint=f"Put {_NAME} last among the hooks.",
            )

    def _keep_earlier_checkpoints(self) -> None:
        """Make a new saver keep and count the checkpoints of the session's saver."""
        state = tf1().train.get_checkpoint_state(self._directory)
        if self._is_new and state is not None:
            self._saver.recover_last_checkpoints(state.all_model_checkpoint_paths)

    def _note_signal(self, number: int, frame: Any) -> None:
        is_second = number == signal.SIGINT and bool(self._requested)
        if self._is_ending and not is_second:
            return
        if not is_second and (self._coord is None or not self._coord.should_stop()):
            self._requested = number
            return
        self._restore_handlers()  # an exception has ended the training, or is about to
        previous = self._previous.get(number)
        if callable(previous):
            previous(number, frame)
        else:
            os.kill(os.getpid(), number)

    def _restore_handlers(self) -> None:
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._note_signal:
                signal.signal(number, previous or signal.SIG_DFL)


class _TrainingRuns:
    """The runs that advance the global step, which all ranks make; use ``fetches in ...``."""

    def __init__(self, graph: Any, step: Any) -> None:
        if step is None:
            raise LifecycleError(
                f"{_NAME} counts steps, but the graph has no global step.",
                hint="Call tf.train.get_or_create_global_step(), and give it to minimize().",
            )
        self._graph = graph
        self._advances = {
            operation
            for operation in graph.get_operations()
            if operation.type.startswith("Assign")
            and operation is not step.initializer
            and _find_variable(operation) is step.op
        }
        if not self._advances:
            raise LifecycleError(
                f"{_NAME} saves after a step, but nothing in the graph advances the global step.",
                hint="Write optimizer.minimize(loss, global_step=...) before the session is made. "
                "To evaluate or predict, leave the hook out: there is nothing to save.",
            )
        self._advancing: Dict[Any, bool] = {}

    def __contains__(self, fetches: Any) -> bool:
        elements = map(
            self._graph.as_graph_element, tf1().nest.flatten(fetches, expand_composites=True)
        )
        targets = tuple(getattr(element, "op", element) for element in elements)
        if targets not in self._advancing:
            self._advancing[targets] = not self._advances.isdisjoint(walk_inputs(*targets))
        return self._advancing[targets]


def _find_variable(operation: Any) -> Any:
    """Return the operation of the variable that an assignment changes, even in a tf.cond."""
    while operation.inputs:
        operation = operation.inputs[0].op
    return operation


def _check_steps(steps: List[int]) -> None:
    others = [f"rank {rank} at {step}" for rank, step in enumerate(steps) if step != steps[0]]
    if others:
        raise CollectiveError(
            f"The ranks start with different global steps: rank 0 at {steps[0]}, "
            f"{', '.join(others)}.",
            hint="Only rank 0 restores the checkpoint: give the session "
            f"BroadcastGlobalVariablesHook(0), before {_NAME}.",
        )

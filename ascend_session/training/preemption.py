"""Training that somebody ends with a signal: it is saved at a step boundary, and resumed there.

Schedulers send SIGTERM to a job whose machine they take away, and SIGKILL some time later. Each
rank gets it at another moment, so every training step has an allreduce of four bytes by which the
ranks learn that one of them got it: all stop after the same step.
"""

import logging
import os
import signal
import threading
from typing import Any, Dict, List, Optional, Set

from ascend_session import hccl
from ascend_session.backends._tensorflow import tf1
from ascend_session.cluster.job import Job
from ascend_session.errors import CollectiveError, LifecycleError
from ascend_session.rank_folder import RANK_FOLDER
from ascend_session.session.graphs import job_size, note_size
from ascend_session.session.system import current_system
from ascend_session.training.progress import note_first_step, note_step

_logger = logging.getLogger(__name__)
_Hook: Any = tf1().train.SessionRunHook
_NAME = "SaveOnPreemptionHook"


class SaveOnPreemptionHook(_Hook):  # type: ignore[misc]
    """Saves a checkpoint after the training step during which SIGTERM came, then ends with 143.

    For ``MonitoredTrainingSession`` and estimators, on all ranks. In a job of several, the step is
    the same on each of them, at most one later, and rank 0 saves. Save and step have to fit into
    the time until SIGKILL: ``ascend-session launch --grace``. The hook takes SIGTERM from its
    session's beginning to its end, also from a handler of your own; further SIGTERMs change
    nothing. Ctrl-C ends the process as it does without the hook, unless it is asked for.

    It also tells the launcher at which step the job is, and with which one it begins. It sees that
    this is the same on all ranks, so it comes after `BroadcastGlobalVariablesHook`.

    Args:
        checkpoint_dir: Folder of the checkpoint. Only rank 0 writes there; others may have None.
        saver: The ``tf.train.Saver``; None means the one of ``scaffold``, or the graph's, or a new
            one of all variables. Instead of a sharded one, which the adapter may fail to run, one
            of the same variables is made that is not (guides/facts/adapter.md#checkpoints).
        scaffold: The ``tf.train.Scaffold`` of the session, if it was given one.
        checkpoint_basename: As in ``tf.train.CheckpointSaverHook``.
        on_interrupt: Whether Ctrl-C (SIGINT) saves as well; the process then ends with 130. A
            second one ends it as without the hook.

    Raises:
        TypeError: If the folder is no path; on rank 0 also if it is None or empty, when the session
            begins.
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
        self._is_new = False  # a saver of this hook's own, not the session's
        self._saved: Optional[Set[str]] = None  # the variables, if it is to save all
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
        self._requested = 0  # the number of the signal that came
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

    # Which of these Keras calls first depends on its release.
    set_model = _implements_train_batch_hooks = set_params
    _implements_test_batch_hooks = _implements_predict_batch_hooks = set_params

    def begin(self) -> None:
        """Add the allreduce to the graph, before that is finalized.

        Raises:
            TypeError: If this is rank 0, which saves, and it has no folder.
            LifecycleError: If the graph has no global step, or nothing advances it; or it has
                several savers.
        """
        tf = tf1()
        graph = tf.get_default_graph()
        self._size = job_size(_NAME)
        system = current_system()
        rank = Job.detect(os.environ).rank if system is None else system.rank
        self._is_first_rank = rank == 0
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
        """Compare the ranks' global steps, and take the signals.

        Raises:
            CollectiveError: If a rank begins with another step than rank 0.
            LifecycleError: Outside the main thread, to which signals belong; or if a later hook
                has added variables that would not be saved.
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
        """Add the ranks' agreement, and the step, to a run that makes a training step."""
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
        """Save and end, if a rank got a signal.

        Raises:
            SystemExit: Then, with code 143, or 130 after Ctrl-C.
        """
        results = run_values.results or {}
        if "step" in results:
            note_step(int(results["step"]))
        agreed = self._requested
        if self._size > 1:
            agreed = int(results["agreed"][0]) if "agreed" in results else 0
        if agreed:
            self._is_ending = True
            self._save(run_context.session, signal.Signals(agreed))
            raise SystemExit(128 + agreed)

    def end(self, session: Any) -> None:
        """Give the signals back; one that came after the last step ends the process now."""
        self._give_signals_back()
        if self._requested:
            os.kill(os.getpid(), self._requested)

    def _save(self, session: Any, reason: signal.Signals) -> None:
        if self._saving_hook is not None:
            self._keep_earlier_checkpoints()
            self._saving_hook.end(session)
            _logger.warning(
                "%s: saved step %d in %s; the job ends with exit code %d.",
                *(reason.name, int(session.run(self._step)), self._directory, 128 + reason),
            )
        if self._size > 1:  # nobody ends before it is saved: the first end is that of all
            session.run(self._agreed, {self._request: [int(reason)]})

    def _find_saver(self, graph: Any) -> Any:
        """Find the saver of this hook, before the session has made its own."""
        tf = tf1()
        found = [] if self._given_saver is None else [self._given_saver]
        if self._scaffold is not None and self._scaffold.saver is not None:
            found = [self._scaffold.saver]
        found = found or graph.get_collection(tf.GraphKeys.SAVERS)
        if len(found) > 1:
            raise LifecycleError(
                f"The graph has {len(found)} savers.", hint=f"Write {_NAME}(..., saver=...)."
            )
        saver = found[0] if found else tf.train.Saver(sharded=True, defer_build=True)
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
        """Refuse variables that a later hook has made: a checkpoint without them is of no use."""
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
        """Have a new saver keep, and count, the checkpoints that the session's has written."""
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
        self._give_signals_back()  # an exception has ended the training, or is to end it
        previous = self._previous.get(number)
        if callable(previous):
            previous(number, frame)
        else:
            os.kill(os.getpid(), number)

    def _give_signals_back(self) -> None:
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._note_signal:
                signal.signal(number, previous or signal.SIG_DFL)


class _TrainingRuns:
    """Knows which runs advance the global step: those are made by all ranks."""

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
        self._known: Any = {}

    def __contains__(self, fetches: Any) -> bool:
        elements = map(
            self._graph.as_graph_element, tf1().nest.flatten(fetches, expand_composites=True)
        )
        targets = tuple(getattr(element, "op", element) for element in elements)
        if targets not in self._known:
            self._known[targets] = self._reaches(targets)
        return bool(self._known[targets])

    def _reaches(self, targets: Any) -> bool:
        waiting, seen = list(targets), set(targets)
        while waiting:
            operation = waiting.pop()
            if operation in self._advances:
                return True
            before = {tensor.op for tensor in operation.inputs} | set(operation.control_inputs)
            waiting += before - seen
            seen |= before
        return False


def _find_variable(operation: Any) -> Any:
    """Find the operation of the variable that an assignment changes, also within a tf.cond."""
    while operation.inputs:
        operation = operation.inputs[0].op
    return operation


def _check_steps(steps: List[int]) -> None:
    others = [f"rank {rank} at {step}" for rank, step in enumerate(steps) if step != steps[0]]
    if others:
        raise CollectiveError(
            f"The ranks begin with different global steps: rank 0 at {steps[0]}, "
            f"{', '.join(others)}.",
            hint="Only rank 0 restores the checkpoint: give the session "
            f"BroadcastGlobalVariablesHook(0), before {_NAME}.",
        )

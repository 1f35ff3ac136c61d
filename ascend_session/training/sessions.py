"""Sessions and estimators that begin right on all ranks, and how many steps all can make.

Variables are initialised or restored on rank 0, then broadcast. Each rank is the chief of its own
estimator's sessions, and rank 0 has the model.
"""

import functools
import inspect
import numbers
import os
from typing import Any, Callable, Optional, Sequence

from ascend_session import hccl
from ascend_session.backends._tensorflow import find_global_step, tf1
from ascend_session.backends.tf_sessions import opening_by_api
from ascend_session.errors import ConfigError, LifecycleError, UnsupportedError
from ascend_session.session.conditions import LOOPS_APPLIED
from ascend_session.session.graphs import job_rank
from ascend_session.session.system import AscendSystem, current_system
from ascend_session.training.broadcast import BroadcastGlobalVariablesHook
from ascend_session.training.loops import IterationsPerLoopHook, iterations_per_loop
from ascend_session.training.progress import note_first_step
from ascend_session.training.step_hook import StepHook

_GIVEN_BY_SYSTEM = ("master", "is_chief")
_ARGUMENTS = ("features", "labels", "mode", "params", "config")  # of a model_fn
_LARGEST = 2**31 - 1  # of the int32 that the ranks exchange


def monitored_session(
    system: AscendSystem,
    checkpoint_dir: Optional[str] = None,
    hooks: Sequence[Any] = (),
    *,
    scaffold: Optional[Any] = None,
    chief_only_hooks: Sequence[Any] = (),
    config: Optional[Any] = None,
    summary_dir: Optional[str] = None,
    **options: Any,
) -> Any:
    """Return TensorFlow's ``MonitoredTrainingSession`` for this rank of the system.

    All ranks initialise their variables. Rank 0 restores the latest checkpoint, and all get its
    values before any other hook looks at them. Call it on all ranks with the same arguments.

    Args:
        system: The open system.
        checkpoint_dir: Where rank 0 restores from, and writes checkpoints and summaries to; other
            ranks write none.
        hooks: As of ``MonitoredTrainingSession``; the broadcast comes before them.
        scaffold: A ``tf.train.Scaffold``; its saver is kept. Without one the session gets a saver
            that is not sharded (guides/training.md#savers).
        chief_only_hooks: Hooks for rank 0 only, after the broadcast.
        config: A ``tf.ConfigProto`` to build on; copied, never changed.
        summary_dir: Where rank 0 writes summaries, if that is another folder.
        options: Other arguments of ``MonitoredTrainingSession``, with its defaults:
            save_checkpoint_secs, save_checkpoint_steps, save_summaries_steps, save_summaries_secs,
            log_step_count_steps, stop_grace_period_secs.

    Raises:
        TypeError: For an argument that ``MonitoredTrainingSession`` has not, and for ``master`` and
            ``is_chief``, which the system gives.
        AscendError: As from ``system.session_config()`` and `BroadcastGlobalVariablesHook`.
    """
    for name in _GIVEN_BY_SYSTEM:
        if name in options:
            raise TypeError(f"monitored_session takes no {name}: the system gives it.")
    tf, is_first = tf1(), system.rank == 0
    proto = system.session_config(base=config)
    add_saver(scaffold)
    all_hooks = [*(chief_only_hooks or () if is_first else ()), *(hooks or ())]
    all_hooks.insert(0, BroadcastGlobalVariablesHook(0) if system.size > 1 else StepHook())
    with opening_by_api():
        return tf.train.MonitoredTrainingSession(
            master=system.target,
            config=proto,
            checkpoint_dir=_as_text(checkpoint_dir) if is_first else None,
            summary_dir=_as_text(summary_dir) if is_first else None,
            scaffold=scaffold,
            hooks=all_hooks,
            **options,
        )


def add_saver(scaffold: Optional[Any], **options: Any) -> None:
    """Give the default graph a saver that is not sharded, unless it or the scaffold has one.

    A scaffold takes the graph's, and builds it when all hooks have added their variables. The saver
    that it would make is sharded (guides/facts/adapter.md#checkpoints).

    Args:
        scaffold: The scaffold of the session, if there is one.
        options: Arguments of ``tf.train.Saver``.
    """
    tf = tf1()
    graph = tf.get_default_graph()
    has_saver = scaffold is not None and scaffold.saver is not None
    if not has_saver and not graph.get_collection(tf.GraphKeys.SAVERS) and not graph.finalized:
        saver = tf.train.Saver(allow_empty=True, defer_build=True, **options)
        graph.add_to_collection(tf.GraphKeys.SAVERS, saver)


def initialize(
    sess: Any, checkpoint_dir: Optional[str] = None, *, saver: Optional[Any] = None
) -> int:
    """Initialise the variables of a plain session, so that all ranks begin with rank 0's.

    Runs the initialisers of all variables and tables, restores the latest checkpoint on rank 0, if
    there is one, and broadcasts the global variables. Call it on all ranks when the graph is
    complete, in place of ``sess.run(tf.global_variables_initializer())``.

    Args:
        sess: A ``tf.Session``.
        checkpoint_dir: A folder with checkpoints, which only rank 0 reads; none if None.
        saver: What restores; by default a ``tf.train.Saver`` of all global variables.

    Returns:
        The global step with which training goes on, the same on all ranks; 0 in a graph that has no
        global step.

    Raises:
        LifecycleError: If the graph is finalized.
        CollectiveError: If the ranks have different variables.
        AscendError: As from `broadcast_global_variables`.
    """
    tf, graph = tf1(), sess.graph
    if graph.finalized:
        raise LifecycleError(
            "The graph is finalized; initialize has to add operations.",
            hint="Call it before the graph is finalized. In place of MonitoredTrainingSession use "
            "training.monitored_session(system, ...), which does the same.",
        )
    is_first = job_rank() == 0
    broadcast = BroadcastGlobalVariablesHook(0)
    with graph.as_default():
        initializers = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            tf.tables_initializer(),
        ]
        folder = _as_text(checkpoint_dir)
        path = tf.train.latest_checkpoint(folder) if folder and is_first else None
        restorer: Any = saver if saver is not None or path is None else tf.train.Saver()
        broadcast.begin()
        step = find_global_step(graph)
    for initializer in initializers:
        sess.run(initializer)
    if path is not None:
        restorer.restore(sess, path)
    broadcast.after_create_session(sess, None)
    first = 0 if step is None else int(sess.run(step))
    if is_first:
        note_first_step(first)
    return first


def _as_text(folder: Any) -> Optional[str]:
    return None if folder is None else os.fspath(folder)


def estimator(
    model_fn: Callable[..., Any],
    system: AscendSystem,
    model_dir: Optional[str] = None,
    *,
    params: Optional[Any] = None,
    warm_start_from: Optional[Any] = None,
    session_config: Optional[Any] = None,
    **run_config: Any,
) -> Any:
    """Return an estimator for this rank: the vendor's on a device, else TensorFlow's.

    Its sessions have the options of the system, and a saver that is not sharded unless the model
    has one. With iterations_per_loop=n a run of a training makes n steps. Training begins with the
    variables of rank 0. Average gradients in ``model_fn``, with
    `DistributedOptimizer`.

    Args:
        model_fn: As of ``tf.estimator.Estimator``. Its ``training_chief_hooks`` are for rank 0.
        system: The open system.
        model_dir: The folder of rank 0, whose checkpoint is the model. Every other rank has a
            folder below it, such as ``rank_1``: an estimator reads its own checkpoints again.
        params: What ``model_fn`` gets.
        warm_start_from: As of ``tf.estimator.Estimator``.
        session_config: A ``tf.ConfigProto`` without an NpuOptimizer entry to build on.
        run_config: Arguments of ``tf.estimator.RunConfig``, such as save_checkpoints_steps,
            save_summary_steps, keep_checkpoint_max, log_step_count_steps, tf_random_seed.

    Raises:
        UnsupportedError: Without ``tf.estimator``, as from TensorFlow 2.16 on.
        ConfigError: If ``session_config`` contradicts the system; on a device for an option that
            NPURunConfig has not.
    """
    tf = tf1()
    if not hasattr(tf, "estimator"):
        raise UnsupportedError(
            f"TensorFlow {tf.__version__} has no estimators; 2.15 is the last release with them.",
            hint="Train in training.monitored_session(system, ...).",
        )
    if model_dir is not None:
        model_dir = os.fspath(model_dir)
        if system.rank:
            model_dir = os.path.join(model_dir, f"rank_{system.rank}")
    return system.graph_backend.make_estimator(
        _for_ranks(model_fn, system),
        system.config,
        system.session_config(base=session_config),
        {**run_config, "model_dir": model_dir, "session_config": session_config},
        **{
            name: value
            for name, value in (("params", params), ("warm_start_from", warm_start_from))
            if value is not None
        },
    )


def _for_ranks(model_fn: Callable[..., Any], system: AscendSystem) -> Callable[..., Any]:
    """Wrap a ``model_fn`` to add the saver and the broadcast."""

    @functools.wraps(model_fn, updated=())
    def wrapped(**given: Any) -> Any:
        config = given["config"]
        arguments = {name: value for name, value in given.items() if name in names}
        spec = model_fn(**arguments)
        if not isinstance(spec, tf1().estimator.EstimatorSpec):
            return spec  # TensorFlow says what is wrong
        # As TensorFlow's, but for the shards.
        add_saver(
            spec.scaffold,
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
            save_relative_paths=True,
        )
        if given["mode"] != tf1().estimator.ModeKeys.TRAIN:
            return spec
        n, graph = system.config.iterations_per_loop or 1, tf1().get_default_graph()
        # The vendor's estimator makes the loop itself (npu_estimator.py).
        if n > 1 and not (system.graph_backend.holds_npus or graph.get_collection(LOOPS_APPLIED)):
            loop = iterations_per_loop(None, spec.train_op, n)
            hooks = (*spec.training_hooks, IterationsPerLoopHook())
            spec = spec._replace(train_op=loop, training_hooks=hooks)
        first = BroadcastGlobalVariablesHook(0) if system.size > 1 else StepHook()
        # A chief's hooks come before those of train(), such as one that counts steps.
        hooks = spec.training_chief_hooks if system.rank == 0 else ()
        return spec._replace(training_chief_hooks=(first, *hooks))

    bound = getattr(model_fn, "keywords", {})  # of a functools.partial
    taken = inspect.signature(model_fn).parameters
    names = [name for name in _ARGUMENTS if name in taken and name not in bound]
    # TensorFlow passes what the signature names.
    listed = [name for name in _ARGUMENTS if name in names or name in ("mode", "config")]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in listed])
    wrapped.__signature__ = signature  # type: ignore[attr-defined]
    return wrapped


def common_steps(n: Any) -> int:
    """Return the smallest of the numbers that the ranks give, by one allreduce.

    For data that are not divided evenly: all ranks make as many steps, and none waits for one whose
    data has ended. Call it on all ranks, while the system is open and before you build the graph::

        steps = training.common_steps(len(my_examples) // batch_size)
        dataset = dataset.batch(batch_size, drop_remainder=True).take(steps)

    Args:
        n: The number of steps for which this rank has data; 0 to 2**31 - 1.

    Returns:
        The minimum over the ranks; ``n`` in a job of one rank.

    Raises:
        TypeError: If ``n`` is not an int.
        ConfigError: If ``n`` is out of range.
        LifecycleError: If no system is open.
        CollectiveError: If a rank is missing, as from any collective.
    """
    if isinstance(n, bool) or not isinstance(n, numbers.Integral):
        raise TypeError(f"common_steps: n must be an int, this is {n!r}.")
    if not 0 <= int(n) <= _LARGEST:
        raise ConfigError(f"n={n} must be 0 to {_LARGEST}: it is a number of steps.")
    system = current_system()
    if system is None:
        raise LifecycleError(
            "common_steps needs an open system, to ask the other ranks.",
            hint="with ascend_system(config) as system: ...",
        )
    if system.size == 1:
        return int(n)
    tf = tf1()
    with tf.Graph().as_default() as graph:
        count = tf.placeholder(tf.int32, [1], "steps")
        smallest = hccl.allreduce(count, "min", fusion=0)
        with opening_by_api():
            session = tf.Session(system.target, graph, system.session_config())
        with session:
            return int(session.run(smallest, {count: [int(n)]})[0])

"""Sessions that begin right on all ranks: initialised or restored on rank 0, then broadcast."""

import os
from typing import Any, Optional, Sequence

from ascend_session.backends._tensorflow import find_global_step, tf1
from ascend_session.backends.tf_sessions import opening_by_api
from ascend_session.errors import LifecycleError
from ascend_session.session.graphs import job_rank
from ascend_session.session.system import AscendSystem
from ascend_session.training.broadcast import BroadcastGlobalVariablesHook
from ascend_session.training.progress import note_first_step
from ascend_session.training.step_hook import StepHook

_GIVEN_BY_SYSTEM = ("master", "is_chief")


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

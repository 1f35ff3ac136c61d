"""Estimators for several ranks: each is the chief of its own sessions, and rank 0 has the model."""

import functools
import inspect
import os
from typing import Any, Callable, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import UnsupportedError
from ascend_session.session.conditions import LOOPS_APPLIED
from ascend_session.session.system import AscendSystem
from ascend_session.training.broadcast import BroadcastGlobalVariablesHook
from ascend_session.training.loops import IterationsPerLoopHook, iterations_per_loop
from ascend_session.training.sessions import add_saver
from ascend_session.training.step_hook import StepHook

_ARGUMENTS = ("features", "labels", "mode", "params", "config")  # of a model_fn


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

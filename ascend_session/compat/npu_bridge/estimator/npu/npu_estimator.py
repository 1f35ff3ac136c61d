"""``npu_bridge.estimator.npu.npu_estimator``: ``tf.estimator`` with the adapter's options.

Here the CPU trains. Source: npu_estimator.py.
"""

import contextlib
import json
import os
import random
import string
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

from tensorflow.python.util import function_utils, tf_inspect

from ascend_session.compat.npu_bridge.estimator.npu import npu_hook, util
from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics
from ascend_session.compat.npu_bridge.estimator.npu.npu_config import NPURunConfig, _attribute_of
from ascend_session.compat.tensorflow_names import Estimator, EstimatorSpec
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import mirror, with_signature
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions, DynamicInputConfig
from ascend_session.vendor import ITERATION_OP

_Base: Any = Estimator
_Spec: Any = EstimatorSpec

_TRAIN, _EVAL = "train", "eval"  # tf.estimator.ModeKeys


@contextlib.contextmanager
def no_check_override() -> Iterator[None]:
    """Let subclasses of ``tf.estimator.Estimator`` override its methods in the block."""
    before = _Base._assert_members_are_not_overridden
    _Base._assert_members_are_not_overridden = lambda estimator: None
    try:
        yield
    finally:
        _Base._assert_members_are_not_overridden = before


class NPUEstimatorSpec(_Spec):  # type: ignore[misc]
    """``tf.estimator.EstimatorSpec`` with a host call: a function and its tensors.

    Raises:
        ValueError, TypeError, RuntimeError: If the host call is none.
    """

    @with_signature(
        "(mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None, "
        "export_outputs=None, training_chief_hooks=None, training_hooks=None, scaffold=None, "
        "evaluation_hooks=None, prediction_hooks=None, host_call=None)"
    )
    def __new__(cls, host_call: Any, **given: Any) -> Any:
        """Check the host call, and make the specification."""
        if host_call is not None:
            _check_host_call(host_call)
        spec = super().__new__(cls, **given)
        spec._host_call = host_call
        return spec


def _check_host_call(call: Any) -> None:
    """Check the pair of a function and its tensors, as the vendor's does."""
    if not isinstance(call, (tuple, list)):
        raise ValueError("host_call should be tuple or list")
    if len(call) != 2:
        raise ValueError("host_call should have two elements.")
    function, tensors = call
    if not callable(function):
        raise TypeError("host_call[0] should be callable.")
    if not isinstance(tensors, (tuple, list, dict)):
        raise ValueError("host_call[1] should be tuple or list, or dict.")
    if isinstance(tensors, dict):
        return
    takes_any = tf_inspect.getfullargspec(function).varargs is not None
    count = len(function_utils.fn_args(function))
    if not takes_any and count != len(tensors):
        raise RuntimeError(
            f"In NPUEstimatorSpec.host_call, length of tensors {len(tensors)} does not match "
            f"method args of the function, which takes {count}."
        )


class NPUEstimator(_Base):  # type: ignore[misc]
    """``tf.estimator.Estimator``, whose sessions have the options of its NPURunConfig.

    Args:
        model_fn: As of ``tf.estimator.Estimator``; it may give an `NPUEstimatorSpec`.
        model_dir: Where checkpoints are; a new folder here if nobody says one.
        config: An `NPURunConfig`.
        params: What ``model_fn`` gets.
        job_start_file: A file that describes the job; without it the environment does.
        warm_start_from: A checkpoint; else LOCAL_CHECKPOINT_DIR, else RESTORE_FROM.

    Raises:
        ValueError: If the configuration is none, or says another ``model_dir``.
        JobError: In a job of several ranks without JOB_ID.
        UnsupportedError: Without ``tf.estimator``.

    Warns:
        AscendConfigWarning: Without JOB_ID, where a device's ends in a ValueError.
    """

    def __init__(
        self,
        model_fn: Any = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        job_start_file: str = "",
        warm_start_from: Any = None,
    ) -> None:
        if not isinstance(config, NPURunConfig):
            raise ValueError("`config` must be provided with type `NPURunConfig`")
        _verify_arguments(model_fn, params)
        config = _add_entry(config)
        job = NPUBasics(job_start_file)._known_job("NPUEstimator's job")
        model_dir = _checked_folder(model_dir, config)
        restore = warm_start_from or job._local_checkpoint_dir or os.environ.get("RESTORE_FROM")
        with no_check_override():
            super().__init__(
                model_fn=_with_hooks(model_fn, model_dir, config, job._device_info),
                model_dir=model_dir,
                config=config,
                params=params or {},
                warm_start_from=restore,
            )


def _verify_arguments(model_fn: Any, params: Any) -> None:
    """Run TensorFlow's check on ``model_fn``; by itself it checks only the function around it."""
    verify = getattr(sys.modules[_Base.__module__], "_verify_model_fn_args", None)
    if verify is not None:
        verify(model_fn, params)


def _checked_folder(model_dir: Any, config: Any) -> Any:
    if model_dir is not None and config.model_dir not in (None, model_dir):
        raise ValueError(
            "model_dir are set both in NPUEstimator and NPURunConfig, but with different values. "
            f"In constructor: '{model_dir}', in NPURunConfig: '{config.model_dir}'"
        )
    model_dir = model_dir or config.model_dir
    while model_dir is None:
        letters = "".join(random.sample(string.ascii_letters + string.digits, 10))
        folder = os.path.join(os.getcwd(), f"model_dir_{letters}")
        if not tf1.io.gfile.exists(folder):
            tf1.logging.warning("Using temporary folder as model directory: %s", folder)
            tf1.io.gfile.mkdir(folder)
            model_dir = folder
    return model_dir


def _with_hooks(
    model_fn: Callable[..., Any], folder: Any, config: Any, device: Any
) -> Callable[..., Any]:
    """Wrap the user's ``model_fn``, to add the hooks of NPUEstimator."""

    def augmented(features: Any, labels: Any, mode: Any, params: Any) -> Any:
        known = {"labels": labels, "mode": mode, "params": params, "config": config}
        names = function_utils.fn_args(model_fn)
        given = {name: value for name, value in known.items() if name in names}
        spec = model_fn(features=features, **given)
        if mode not in (_TRAIN, _EVAL):
            return spec
        if not isinstance(spec, _Spec):
            raise RuntimeError(
                f"estimator_spec used by NPU {mode} must have type `NPUEstimatorSpec` or "
                f"`EstimatorSpec`. Got {type(spec)}"
            )
        if mode == _TRAIN:
            return _for_training(spec, folder, config, device)
        return _for_evaluation(spec)

    return augmented


def _for_training(spec: Any, folder: Any, config: Any, device: Any) -> Any:
    hooks: List[Any] = []
    size = util.get_ranksize()
    if size.isdigit() and int(size) > 1 and not config.horovod_mode:
        root, index = device._root_rank, device._index
        hooks.append(npu_hook.NPUBroadcastGlobalVariablesHook(root, index))
    if config.save_checkpoints_steps or config.save_checkpoints_secs:
        hooks.append(
            npu_hook.NPUCheckpointSaverHook(
                checkpoint_dir=folder,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                saver=tf1.train.Saver(max_to_keep=config.keep_checkpoint_max),
            )
        )
    if isinstance(spec, NPUEstimatorSpec):
        spec = _with_host_call(spec, [spec.train_op], _TRAIN, hooks)
    if config.iterations_per_loop > 1:
        hooks.append(npu_hook.SetIterationsVarHook(config.iterations_per_loop))
        spec = spec._replace(train_op=tf1.group(spec.train_op, name=ITERATION_OP))
    return spec._replace(training_hooks=(*hooks, *(spec.training_hooks or ())))


def _for_evaluation(spec: Any) -> Any:
    hooks: List[Any] = []
    if isinstance(spec, NPUEstimatorSpec):
        spec = _with_host_call(spec, [spec.loss], _EVAL, hooks)
    return spec._replace(evaluation_hooks=(*hooks, *(spec.evaluation_hooks or ())))


def _with_host_call(spec: Any, after: List[Any], mode: str, hooks: List[Any]) -> Any:
    """Add the host call to each step of a specification, with its hooks; return the result.

    As with the vendor's class, ``_replace`` returns an object without the host call.
    """
    host_call: Optional[Any] = getattr(spec, "_host_call", None)
    if host_call is not None:
        results = _call_with_tensors(host_call, after)
        changes: Dict[str, Any] = {}
        with tf1.control_dependencies(results):
            changes["loss"] = tf1.identity(spec.loss)
        if mode == _TRAIN:
            changes["train_op"] = tf1.group(spec.train_op, *results)
        spec = spec._replace(**changes)
        hooks.append(npu_hook.NPUInfeedOutfeedSessionHook(results, mode))
    hooks.append(npu_hook.NPULogOutfeedSessionHook(sys.stderr))
    return spec


def _call_with_tensors(host_call: Any, after: List[Any]) -> List[Any]:
    """Call the host call's function with the step's tensors, which are read after ``after``.

    A device sends them to the host, where a thread runs the function's operations; here these are
    part of the step (npu_estimator.py, ``_OutfeedHostCall``).

    Returns:
        The operations and tensors that the function returns.
    """
    function, tensors = host_call
    names = list(tensors) if isinstance(tensors, dict) else None
    given = list(tensors) if names is None else list(tensors.values())
    with tf1.control_dependencies(after):
        copies = [tf1.identity(tensor) for tensor in given]
    # What the function makes besides, a writer's initialiser for one, must not wait for a step.
    results = function(*copies) if names is None else function(**dict(zip(names, copies)))
    return [result for result in tf1.nest.flatten(results) if result is not None]


_OPTIMIZERS = (
    "pruning",
    "function",
    "constfold",
    "shape",
    "arithmetic",
    "loop",
    "dependency",
    "layout",
    "GradFusionOptimizer",
)


def _add_entry(config: Any) -> Any:
    """Add an entry to the proto of the sessions of an NPURunConfig.

    As by the vendor's function, the given proto is changed. If it has the entry already, because
    several estimators share a configuration, nothing is added.
    """
    if config.session_config is None:
        config = config.replace(session_config=tf1.ConfigProto())
    rewrite = config.session_config.graph_options.rewrite_options
    entry = _entry(_parameters(config))
    if entry not in list(rewrite.custom_optimizers):
        rewrite.optimizers.extend(_OPTIMIZERS)
        rewrite.custom_optimizers.add().CopyFrom(entry)
    return config


def _entry(values: Dict[str, Any]) -> Any:
    entry = tf1.ConfigProto().graph_options.rewrite_options.custom_optimizers.add()
    entry.name = ENTRY_NAME
    known = options_by_key(AdapterOptions)
    for key, value in values.items():
        field = known[key].field or ""
        if field == "s" and key != "insert_op_file":  # which the vendor's gives as it is
            value = tf1.compat.as_bytes(value)
        setattr(entry.parameter_map[key], field, value)
    return entry


def _parameters(config: Any) -> Dict[str, Any]:
    """Return the keys of the entry and their values."""
    known = options_by_key(AdapterOptions)
    values = {
        key: _read(config, option.path)
        for key, option in known.items()
        if option.field and not option.raw_only
    }
    always = {key for key, option in known.items() if option.always}
    for key in ("graph_memory_max_size", "variable_memory_max_size"):
        if values[key] is not None:
            values[key] = str(values[key])
    if config._dump_config is None:
        values.update(enable_dump=False, enable_dump_debug=False)
    elif values["dump_mode"] is None:
        values["dump_debug_mode"] = None
    else:
        always.add("dump_debug_mode")
    if config._profiling_config is not None:
        is_on = values["profiling_mode"]
        values["profiling_options"] = (values["profiling_options"] or "") if is_on else None
        always.add("profiling_mode")
    if config._memory_config is not None:
        always.add("atomic_clean_policy")
    profile = list(options_by_key(DynamicInputConfig))
    if any(values[key] is None for key in profile):  # all four or none, as npu_estimator.py does
        values.update(dict.fromkeys(profile))
    mode = "experimental_logical_device_cluster_deploy_mode"
    if config._experimental_config is None:
        values[mode] = known[mode].adapter
    if values["aoe_mode"] is None:
        values.update(work_path=None, distribute_config=None)
    elif values["work_path"] is None:
        values["work_path"] = known["work_path"].adapter
    values.update({key: known[key].adapter for key in always if known[key].raw_only})
    written = {key: each for key, each in values.items() if each is not None or key in always}
    return {**written, **_task()}


def _read(config: Any, path: str) -> Any:
    """Return the value at the path of an option; None without such a part."""
    value = config
    for name in path.split("."):
        value = None if value is None else getattr(value, _attribute_of(name))
    return value


def _task() -> Dict[str, Any]:
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    if not task.get("type"):
        return {"job": "localhost", "task_index": 0}
    return {"job": task["type"], "task_index": int(task.get("index", 0))}


__getattr__, __all__ = mirror(
    globals(),
    "os sys collections json random string six tf logging ops constant_op control_flow_ops "
    "array_ops estimator_lib model_fn_lib function_utils tf_inspect util_lib util "
    "NPURunConfig NPUBroadcastGlobalVariablesHook NPUCheckpointSaverHook "
    "SetIterationsVarHook NPULogOutfeedSessionHook NPUInfeedOutfeedSessionHook "
    "NPUOutputTensorHook NPUShutDownHook broadcast_global_variables NPUBasics npu_ops "
    "NPUSaver config_pb2",
)

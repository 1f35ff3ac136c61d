"""What mirrors of the vendor's modules are made with: names from elsewhere, signatures as text.

``from npu_bridge.estimator.npu.npu_loss_scale_optimizer import FixedLossScaleManager`` is seen in
public scripts; such names are looked up when they are asked for.
"""

import functools
import importlib
import importlib.util
import inspect
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ascend_session.compat.placeholders import absent_attribute, names_of

_COMPAT = "ascend_session.compat."
_NPU = f"{_COMPAT}npu_bridge."
_NAMES = "ascend_session.compat.tensorflow_names:"
_PY = "tensorflow.python."

# place -> names of it: modules, or attributes of a module that ends with a colon
_PLACES = {
    "": "atexit os sys json time random string collections threading six",
    "enum:": "Enum",
    "inspect:": "signature",
    "ascend_session.compat.hccl.manage.api:": (
        "create_group destroy_group get_group_rank_from_world_rank get_local_rank_id "
        "get_local_rank_size get_rank_id get_rank_size get_world_rank_from_group_rank"
    ),
    "ascend_session.compat.hccl.split.api:": (
        "set_split_strategy_by_idx set_split_strategy_by_size"
    ),
    f"{_NPU}npu_init:": (
        "npu_config_proto npu_graph_options npu_optimizer_options npu_run_config_init "
        "npu_session_config_init"
    ),
    _NPU: "tf_adapter",
    f"{_NPU}estimator.": "npu_ops",
    f"{_NPU}estimator.npu.": ("npu_plugin npu_rnn npu_scope npu_strategy util"),
    f"{_NPU}estimator.npu.npu_callbacks:": "NPUBroadcastGlobalVariablesCallback",
    f"{_NPU}estimator.npu.npu_common:": "NPUBasics",
    f"{_NPU}estimator.npu.npu_config:": (
        "DumpConfig DynamicInputConfig ExperimentalConfig GraphMemoryOptimizeConfig MemoryConfig "
        "NPURunConfig NpuExecutePlacement ProfilingConfig decorator_tf_session"
    ),
    f"{_NPU}estimator.npu.npu_estimator:": "NPUEstimator NPUEstimatorSpec",
    f"{_NPU}estimator.npu.npu_hook:": (
        "NPUBroadcastGlobalVariablesHook NPUCheckpointSaverHook NPUInfeedOutfeedSessionHook "
        "NPULogOutfeedSessionHook NPUOutputTensorHook NPUShutDownHook SetIterationsVarHook "
        "TellMeStepOrLossHook broadcast_global_variables"
    ),
    f"{_NPU}estimator.npu.npu_loss_scale_manager:": (
        "ExponentialUpdateLossScaleManager FixedLossScaleManager"
    ),
    f"{_NPU}estimator.npu.npu_loss_scale_optimizer:": "NPULossScaleOptimizer",
    f"{_NPU}estimator.npu.npu_optimizer:": (
        "KerasDistributeOptimizer NPUDistributedOptimizer NPUOptimizer npu_allreduce "
        "npu_distributed_optimizer_wrapper"
    ),
    f"{_NPU}estimator.npu.npu_plugin:": "npu_close",
    f"{_NPU}estimator.npu_ops:": "DEFAULT_GRAPH_SEED",
    f"{_NPU}hccl.": "hccl_ops",
    f"{_NPU}helper.": "helper",
    f"{_NPU}npu_cpu.": "npu_cpu_ops",
    f"{_PY}distribute.": "distribute_lib one_device_strategy",
    f"{_PY}eager.": "context",
    f"{_PY}framework.": "ops dtypes constant_op",
    f"{_PY}keras.": "optimizers",
    f"{_PY}keras.optimizer_v2.": "optimizer_v2",
    f"{_PY}ops.": (
        "array_ops control_flow_ops gen_control_flow_ops gen_math_ops init_ops math_ops "
        "resource_variable_ops state_ops variable_scope"
    ),
    f"{_PY}training.": (
        "optimizer server_lib session_run_hook basic_session_run_hooks training_util"
    ),
    f"{_PY}util.": "compat function_utils tf_inspect",
    "tensorflow.compat.v1:": "keras",
    "tensorflow.core.framework.": "attr_value_pb2 variable_pb2",
    "tensorflow.core.protobuf.": "config_pb2 rewriter_config_pb2",
    "tensorflow.core.protobuf.rewriter_config_pb2:": "RewriterConfig",
}

_LIBRARIES = ("gen_hccl_ops", "gen_npu_cpu_ops", "gen_npu_ops", "npu_unary_ops")

# name -> module, or module:attribute
_HOMES: Dict[str, str] = {
    **{name: place + name for place, names in _PLACES.items() for name in names.split()},
    **dict.fromkeys(_LIBRARIES, f"{_NPU}helper.helper:npu_bridge_handle"),
    "Queue": "queue",
    "backend": f"{_NAMES}keras_backend",
    "contrib_summary": f"{_PY}ops.summary_ops_v2",
    "estimator_lib": "tensorflow_estimator.python.estimator.estimator",
    "logging": f"{_PY}platform.tf_logging",
    "model_fn_lib": "tensorflow_estimator.python.estimator.model_fn",
    "run_config_lib": "tensorflow_estimator.python.estimator.run_config",
    "tf": f"{_NAMES}AS_SCRIPTS",
    "util_lib": f"{_NPU}estimator.npu.util",
}


def mirror(namespace: Dict[str, Any], names: str = "") -> Tuple[Callable[[str], Any], List[str]]:
    """Complete a mirrored module, at its end: make its ``__getattr__`` (PEP 562) and ``__all__``.

    A package finds its modules that way, too. Whatever there is not is a placeholder. ``import *``
    gives what the vendor's does, but for modules that not every TensorFlow has: functions and
    classes that the module defines, these names, and what only a device runs. Exceptions are left
    out, for the vendor's modules define none.

    Args:
        namespace: Its ``globals()``, where what was looked up stays.
        names: What else the vendor's has, its constants and imports, with blanks between.
    """
    module, others = namespace["__name__"], names.split()
    vendors_module = module[len(_COMPAT) :]

    def load(name: str) -> Any:
        home = _HOMES.get(name, "") if name in others else ""
        if "__path__" in namespace and importlib.util.find_spec(f"{module}.{name}"):
            home = f"{module}.{name}"
        value = _import_from(home) if home else absent_attribute(vendors_module, name)
        namespace[name] = value
        return value

    defined = [name for name, value in namespace.items() if _is_vendors(name, value, module)]
    late = (_PY, "tensorflow_estimator")
    others_at_once = [name for name in others if not _HOMES.get(name, "").startswith(late)]
    return load, [*defined, *others_at_once, *names_of(vendors_module)]


def _import_from(home: str) -> Any:
    """Import ``module`` or ``module:attribute``; what this TensorFlow has not says so when used."""
    module, _, attribute = home.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except ImportError as error:
        from ascend_session.compat.tensorflow_names import absent_class

        return absent_class(attribute or module, f"{error}.")
    return getattr(value, attribute) if attribute else value


def _is_vendors(name: str, value: Any, module: str) -> bool:
    """Return whether ``value`` is a function or class of the vendor's that ``module`` defines."""
    if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    is_error = inspect.isclass(value) and issubclass(value, Exception)
    return value.__module__ == module and not is_error


# A signature of ninety arguments is data, not code; `help` and `inspect` show it all the same.


def signature_of(text: str) -> inspect.Signature:
    """Parse a signature like ``(x, keep_prob, noise_shape=None)``; defaults are literals."""
    names: Dict[str, Any] = {}
    exec(f"def function{text}: pass", names)
    return inspect.signature(names["function"])


def bind_arguments(
    called: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Dict[str, Any]:
    """Return all arguments of a call by their names, in their order.

    Args:
        called: The name of what is called, for the error.
        signature: What it takes.
        args: What was given by position.
        kwargs: What was given by name.

    Raises:
        TypeError: If the arguments do not fit the signature; names ``called``.
    """
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{called}() {error}") from None
    given.apply_defaults()
    return dict(given.arguments)


def with_signature(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function a signature that is data; it gets all arguments by name.

    Args:
        text: The signature without ``self`` or ``cls``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        first = next(iter(inspect.signature(function).parameters), "")
        is_method = first in ("self", "cls")
        signature = signature_of(f"({first}, {text[1:]}" if is_method else text)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            called = function.__name__
            if is_method:
                called = getattr(args[0], "__name__", type(args[0]).__name__)
            return function(**bind_arguments(called, signature, args, kwargs))

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def keep_arguments(text: str, public: Sequence[str] = ()) -> Any:
    """Make an ``__init__`` that keeps each argument behind an underscore.

    Args:
        text: The signature without ``self``.
        public: Arguments that are kept under their own names.
    """

    @with_signature(text)
    def __init__(self: Any, **given: Any) -> None:  # noqa: N807  (it is one)
        """Keep the arguments."""
        for name, value in given.items():
            setattr(self, name if name in public else f"_{name}", value)

    return __init__

"""What the vendor's modules are made of: names that they import, and signatures as text.

``from npu_bridge.estimator.npu.npu_loss_scale_optimizer import FixedLossScaleManager`` is seen in
public scripts; such names are looked up when they are asked for. A signature of ninety arguments is
data, not code; `help` and `inspect` show it all the same.
"""

import importlib
import inspect
from typing import Any, Callable, Dict, List, Sequence, Tuple

_NPU = "ascend_session.compat.npu_bridge."
_NAMES = "ascend_session.compat.tensorflow_names:"
_PY = "tensorflow.python."

# place -> names of it: modules, or attributes of a module that ends with a colon
_PLACES = {
    "": "os sys json time math random string numbers collections threading six",
    "enum:": "Enum",
    "inspect:": "signature",
    "ascend_session.compat.hccl.manage.api:": "get_rank_id get_rank_size",
    f"{_NPU}estimator.": "npu_ops",
    f"{_NPU}estimator.npu.": "util npu_scope npu_plugin npu_hook",
    f"{_NPU}estimator.npu.npu_common:": "NPUBasics",
    f"{_NPU}estimator.npu.npu_config:": (
        "ExperimentalConfig GraphMemoryOptimizeConfig NPURunConfig"
    ),
    f"{_NPU}estimator.npu.npu_estimator:": "NPUEstimator NPUEstimatorSpec",
    f"{_NPU}estimator.npu.npu_hook:": (
        "NPUBroadcastGlobalVariablesHook NPUCheckpointSaverHook NPUInfeedOutfeedSessionHook "
        "NPULogOutfeedSessionHook NPUOutputTensorHook NPUShutDownHook SetIterationsVarHook "
        "broadcast_global_variables"
    ),
    f"{_NPU}estimator.npu.npu_loss_scale_manager:": "FixedLossScaleManager",
    f"{_NPU}estimator.npu.npu_saver:": "NPUSaver",
    f"{_NPU}hccl.": "hccl_ops",
    f"{_NPU}helper.": "helper",
    f"{_PY}distribute.": "distribute_lib one_device_strategy",
    f"{_PY}eager.": "context",
    f"{_PY}framework.": "ops dtypes constant_op",
    f"{_PY}keras.": "optimizers",
    f"{_PY}keras.estimator:": "model_to_estimator",
    f"{_PY}keras.optimizer_v2.": "optimizer_v2",
    f"{_PY}ops.": (
        "array_ops control_flow_ops gen_control_flow_ops gen_math_ops init_ops math_ops "
        "resource_variable_ops state_ops variable_scope variables"
    ),
    f"{_PY}training.": (
        "optimizer server_lib session_run_hook basic_session_run_hooks training_util"
    ),
    f"{_PY}training.saver:": "BulkSaverBuilder Saver",
    f"{_PY}training.saving.": "saveable_object_util",
    f"{_PY}util.": "compat function_utils tf_inspect",
    "tensorflow.compat.v1:": "keras",
    "tensorflow.core.framework.": "attr_value_pb2 variable_pb2",
    "tensorflow.core.protobuf.": "config_pb2 saver_pb2",
    "tensorflow.core.protobuf.rewriter_config_pb2:": "RewriterConfig",
    "tensorflow_estimator.python.estimator.": "run_config",
}

# name -> module, or module:attribute
_HOMES: Dict[str, str] = {
    **{name: place + name for place, names in _PLACES.items() for name in names.split()},
    "Queue": "queue",
    "backend": f"{_NAMES}keras_backend",
    "contrib_summary": f"{_PY}ops.summary_ops_v2",
    "estimator_lib": "tensorflow_estimator.python.estimator.estimator",
    "gen_npu_ops": f"{_NPU}helper.helper:npu_bridge_handle",
    "logging": f"{_PY}platform.tf_logging",
    "model_fn_lib": "tensorflow_estimator.python.estimator.model_fn",
    "run_config_lib": "tensorflow_estimator.python.estimator.run_config",
    "tf": f"{_NAMES}AS_SCRIPTS",
    "util_lib": f"{_NPU}estimator.npu.util",
}


def mirror_names(
    module: str, own: str, imported: str, namespace: Dict[str, Any]
) -> Tuple[Callable[[str], Any], List[str]]:
    """Make the ``__getattr__`` (PEP 562) and the ``__all__`` of a mirrored module.

    ``import *`` gives what the vendor's does, but for modules that not every TensorFlow has.

    Args:
        module: Its name, ``__name__``.
        own: What the vendor's defines, with blanks between.
        imported: What the vendor's imports, the same.
        namespace: Its ``globals()``, where what was looked up stays.
    """
    known = imported.split()

    def load(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, attribute = _HOMES[name].partition(":")
        try:
            value: Any = importlib.import_module(home)
        except ImportError as error:
            raise AttributeError(f"module {module!r} has no {name!r} here: {error}") from error
        value = getattr(value, attribute) if attribute else value
        namespace[name] = value
        return value

    always = [name for name in known if not _HOMES[name].startswith((_PY, "tensorflow_estimator"))]
    return load, [*own.split(), *always]


def signature_of(text: str) -> inspect.Signature:
    """Parse a signature like ``(x, keep_prob, noise_shape=None)``; defaults are literals."""
    names: Dict[str, Any] = {}
    exec(f"def function{text}: pass", names)
    return inspect.signature(names["function"])


def with_signature(
    text: str,
) -> Callable[[Callable[[Any, Dict[str, Any]], None]], Callable[..., None]]:
    """Make an ``__init__`` of a function that takes all arguments as one dict, in their order.

    Args:
        text: The signature without ``self``.
    """
    signature = signature_of(text)

    def decorate(function: Callable[[Any, Dict[str, Any]], None]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  (it is one)
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}() {error}") from None
            given.apply_defaults()
            function(self, dict(given.arguments))

        init: Any = __init__
        init.__signature__ = signature_of(f"(self, {text[1:]}")
        init.__doc__ = function.__doc__
        return __init__

    return decorate


def keep_arguments(text: str, public: Sequence[str] = ()) -> Any:
    """Make an ``__init__`` that keeps each argument behind an underscore.

    Args:
        text: The signature without ``self``.
        public: Arguments that are kept under their own names.
    """

    @with_signature(text)
    def init(self: Any, given: Dict[str, Any]) -> None:
        """Keep the arguments."""
        for name, value in given.items():
            setattr(self, name if name in public else f"_{name}", value)

    return init

"""Conversion between AscendConfig and ``tf.ConfigProto``; the only module here with TensorFlow.

The adapter reads entries named exactly NpuOptimizer, and one protobuf field of each value; if
another field is set it silently reads zero (guides/facts/adapter.md#values-in-the-wrong-field).
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar

from ascend_session.config.entry import (
    ENTRY_NAME,
    FileStore,
    adapter_part,
    flatten,
    read_entries,
    unflatten,
    values_in_force,
)
from ascend_session.config.model import ConfigModel
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.overlay import Overlay, overlay_keys
from ascend_session.config.rules import validate
from ascend_session.errors import BackendError, ConfigError, warn
from ascend_session.findings import ERROR, Finding
from ascend_session.requirements import hint_for_import_error
from ascend_session.text import one_line

_Model = TypeVar("_Model", bound=ConfigModel)


class SessionProto(NamedTuple):
    """A ``tf.ConfigProto`` and the keys and values of its NpuOptimizer entry."""

    proto: Any
    parameters: Dict[str, Any]


def build_proto(
    config: Any, base: Any, store: FileStore, allow_soft_placement: bool = True
) -> SessionProto:
    """Build a new proto with ``config`` in its one entry; see `AscendConfig.to_config_proto`.

    Args:
        config: The options.
        base: A ``tf.ConfigProto`` to start from, or None.
        store: Where file objects of ``config`` are written.
        allow_soft_placement: Value in the proto.
    """
    proto = _config_pb2().ConfigProto()
    base = _choose_base(config.session_config, base)
    parameters = adapter_part(config, store)
    if base is not None:
        proto.CopyFrom(base)
        parameters = _merge(config, parameters, read_entry(base))
    proto.allow_soft_placement = allow_soft_placement
    _set_rewriter(proto.graph_options.rewrite_options)
    add_to_entry(proto, parameters)
    return SessionProto(proto, parameters)


def add_to_entry(proto: Any, parameters: Mapping[str, Any]) -> None:
    """Write ``parameters`` into the NpuOptimizer entry of ``proto``, which is changed."""
    optimizers = proto.graph_options.rewrite_options.custom_optimizers
    entry = next((entry for entry in optimizers if entry.name == ENTRY_NAME), None)
    if entry is None:
        entry = optimizers.add(name=ENTRY_NAME)
    _write_values(entry, parameters)


def _write_values(entry: Any, parameters: Mapping[str, Any]) -> None:
    options = options_by_key(AdapterOptions)
    for key, value in parameters.items():
        field = options[key].field or ""
        setattr(entry.parameter_map[key], field, value.encode() if field == "s" else value)


def overlay_entry(proto: Any, overlay: Overlay) -> Tuple[Any, Dict[str, Any]]:
    """Return a proto with an overlay's values in its NpuOptimizer entry, and what they replace.

    A proto without an entry is returned as it is: the adapter leaves its session on the host. Of
    several entries the last gets the values, and the others lose those keys.

    Args:
        proto: A ``tf.ConfigProto`` or None; never changed.
        overlay: The values, as `overlay.check_overlay` returns them.

    Returns:
        The proto, and the values in force before, by key, of the keys that are different now.
    """
    rewrite = getattr(getattr(proto, "graph_options", None), "rewrite_options", None)
    if not overlay or not any(
        each.name == ENTRY_NAME for each in getattr(rewrite, "custom_optimizers", ())
    ):
        return proto, {}
    keys = overlay_keys(overlay)
    before = values_in_force(read_entries(proto)[0])
    copied = type(proto)()
    copied.CopyFrom(proto)
    optimizers = copied.graph_options.rewrite_options.custom_optimizers
    entries = [each for each in optimizers if each.name == ENTRY_NAME]
    for entry in entries:
        for key in keys:
            if key in entry.parameter_map:
                del entry.parameter_map[key]
    _write_values(entries[-1], {k: value for k, value in keys.items() if value is not None})
    after = values_in_force(read_entries(copied)[0])
    return copied, {key: before.get(key) for key in keys if before.get(key) != after.get(key)}


def from_config_proto(model: Type[_Model], proto: Any) -> _Model:
    """Read the entry of ``proto`` as a config; see `AscendConfig.from_config_proto`."""
    _check_type("proto", proto)
    values, problems = _read(proto)
    try:
        config = unflatten(model, values)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError.from_problems(problems, f"the proto's {ENTRY_NAME} entry")
    return config


def read_entry(proto: Any) -> Dict[str, Any]:
    """Read the keys and values of the proto's NpuOptimizer entry; ``{}`` if it has none.

    Raises:
        ConfigError: On a wrong name, a second entry, or values in the wrong field; all at once.
    """
    values, problems = _read(proto)
    if problems:
        raise ConfigError.from_problems(problems, f"the proto's {ENTRY_NAME} entry")
    return values


def _read(proto: Any) -> Tuple[Dict[str, Any], List[Finding]]:
    entries, problems = read_entries(proto)
    if not entries:
        return {}, problems
    first = entries[0]
    problems += [*first.misplaced.values(), *first.not_text]
    wrong = {problem.option for problem in problems}
    values = {key: value for key, value in first.written.items() if key not in wrong}
    return values, problems


def _config_pb2() -> Any:
    try:
        from tensorflow.core.protobuf import config_pb2
    except Exception as error:
        raise tensorflow_error(error) from error
    return config_pb2


def tensorflow_error(error: Exception) -> BackendError:
    """Return the error for a failed import of TensorFlow."""
    kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    reason = one_line(str(error), 300).rstrip(".")
    hint = hint_for_import_error(str(error))
    return BackendError(f"TensorFlow cannot be imported: {kind}{reason}.", hint=hint)


def _choose_base(of_config: Any, given: Any) -> Any:
    if given is not None:
        _check_type("The base proto", given)
    if of_config is not None and given is not None and of_config != given:
        raise ConfigError(
            "A base proto was given twice and differs: as session_config of the AscendConfig and "
            "as base of to_config_proto.",
            hint="Give it in one place only.",
        )
    return given if given is not None else of_config


def _check_type(name: str, proto: Any) -> None:
    if not isinstance(proto, _config_pb2().ConfigProto):
        kind = type(proto).__name__
        raise ConfigError(f"{name} must be a tf.ConfigProto, this is {kind}: {proto!r}.")


def _merge(config: Any, parameters: Dict[str, Any], of_base: Dict[str, Any]) -> Dict[str, Any]:
    """Merge the base's entry and the config; the rules run on the whole.

    Raises:
        ConfigError: If a key is in both with different values, or the whole breaks a rule.
    """
    clashes = [
        Finding(
            ERROR,
            f"{key} is {parameters[key]!r} in the AscendConfig but {value!r} in the base proto's "
            f"{ENTRY_NAME} entry.",
            "Set it in one place only.",
            option=key,
        )
        for key, value in of_base.items()
        if key in parameters and parameters[key] != value
    ]
    if clashes:
        raise ConfigError.from_problems(clashes, "the base proto and this AscendConfig")
    if not of_base:
        return parameters
    merged = unflatten(AdapterOptions, {**of_base, **parameters})
    given = flatten(config)
    validate({**of_base, **given}, given)
    return adapter_part(merged)


# Rewriter options ------------------------------------------------------------------------------

REMAPPER = "remap"
"""The remapper's name in ``rewrite_options.optimizers``."""

OPTIMISES = {
    "remapping": "TensorFlow then fuses operators into ones that only a CPU or GPU has, before the "
    "adapter gets the graph; the adapter's manual and samples turn it off.",
    "memory_optimization": "TensorFlow then changes the graph to save memory before the adapter "
    "gets it, by other orders and by swapping to the host; the adapter's manual and samples turn "
    "it off.",
}
"""The effect of each rewriter option that is not turned off."""

OFF = {"memory_optimization": (1, 2), "remapping": (2,)}
"""The numbers that turn each off: 2 is RewriterConfig.OFF, 1 is NO_MEM_OPT of memory_optimization.

In the enum of memory_optimization 2 is MANUAL, and 1 is the number of remapping's ON.
"""


def _set_rewriter(rewrite_options: Any) -> None:
    """Write remapping and memory_optimization as the vendor's samples have them.

    The samples write RewriterConfig.OFF into memory_optimization; its 2 is MANUAL there, and that
    is the value all of the vendor's tests ran with (guides/facts/process.md#importing-npu_bridge).
    """
    off = rewrite_options.OFF
    for name in OPTIMISES:
        value = getattr(rewrite_options, name)
        if value == 0:
            setattr(rewrite_options, name, off)
        elif value != off:
            kind = rewrite_options.DESCRIPTOR.fields_by_name[name].enum_type
            word = kind.values_by_number[value].name
            warn(
                f"The base proto sets rewrite_options.{name} to {word}; it is kept, but the "
                "adapter's samples all set RewriterConfig.OFF."
            )


def explain_switch(name: str, value: int, listed: Sequence[str]) -> Optional[str]:
    """Explain why a rewriter option should be off in an NPU session; None if it is off.

    A list of optimizers stands for all the switches: TensorFlow then runs those alone, and
    ``memory`` as MANUAL (meta_optimizer.cc). NPUEstimator writes such a list.

    Args:
        name: ``memory_optimization`` or ``remapping``.
        value: Its value in the session's proto.
        listed: ``rewrite_options.optimizers`` of that proto.
    """
    if listed:
        if name != "remapping" or REMAPPER not in listed:
            return None
        return f"rewrite_options.optimizers names {REMAPPER!r}. {OPTIMISES[name]}"
    if value in OFF[name]:
        return None
    return (
        f"rewrite_options.{name} is not turned off, so TensorFlow changes the graph before the "
        f"adapter gets it. Write config.graph_options.rewrite_options.{name} = RewriterConfig.OFF."
    )

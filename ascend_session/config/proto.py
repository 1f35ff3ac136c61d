"""Between AscendConfig and ``tf.ConfigProto``; the only part of the config room with TensorFlow.

Facts: the adapter reads entries named exactly NpuOptimizer, and of each value one protobuf field;
another field reads as zero without a word (options_notes g1; adapter_behaviour.md).
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.config.checking import report_new, warn
from ascend_session.config.file_store import FileStore
from ascend_session.config.option import Option, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.parameter_map import adapter_part, flatten, unflatten
from ascend_session.errors import BackendError, ConfigError
from ascend_session.findings import ERROR, Finding

TENSORFLOW = "pip install 'ascend_session[tensorflow]'"


def to_config_proto(config: Any, base: Any, allow_soft_placement: bool) -> Any:
    """Build a new proto with ``config`` in its one entry; see `AscendConfig.to_config_proto`."""
    config_pb2 = _config_pb2()
    proto = config_pb2.ConfigProto()
    base = _one_base(config.session_config, base)
    config = FileStore().stored(config)
    parameters = config.parameter_map()
    if base is not None:
        proto.CopyFrom(base)
        parameters = _merged(config, parameters, read_entry(base))
    proto.allow_soft_placement = allow_soft_placement
    _set_rewriter(proto.graph_options.rewrite_options)
    add_to_entry(proto, parameters)
    return proto


def _config_pb2() -> Any:
    try:
        from tensorflow.core.protobuf import config_pb2
    except ImportError as error:
        raise BackendError(f"TensorFlow cannot be imported: {error}.", hint=TENSORFLOW) from error
    return config_pb2


def _one_base(of_config: Any, given: Any) -> Any:
    for name, proto in (("session_config", of_config), ("The base proto", given)):
        if proto is not None:
            _check_type(name, proto)
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


def _merged(config: Any, parameters: Dict[str, Any], of_base: Dict[str, Any]) -> Dict[str, Any]:
    """Merge the base's entry and the config; the rules run on the whole.

    Raises:
        ConfigError: If a key is in both with different values, or the whole breaks a rule.
    """
    clashes = [
        Finding(
            ERROR,
            f"{key} is {parameters[key]!r} in the AscendConfig but {value!r} in the base proto's "
            f"{ENTRY_NAME} entry.",
            "Say it in one place only.",
            option=key,
        )
        for key, value in of_base.items()
        if key in parameters and parameters[key] != value
    ]
    if clashes:
        raise ConfigError.of(clashes, "the base proto and this AscendConfig")
    if not of_base:
        return parameters
    typed = unflatten(AdapterOptions, {**of_base, **parameters})
    given = flatten(config)
    report_new({**of_base, **given}, given)
    return adapter_part(typed)


def _set_rewriter(rewrite_options: Any) -> None:
    """Write remapping and memory_optimization as the vendor's samples have them.

    The samples write RewriterConfig.OFF into memory_optimization; its 2 is MANUAL there, and
    that is the value all of the vendor's tests ran with (adapter_behaviour.md).
    """
    off = rewrite_options.OFF
    for name in ("remapping", "memory_optimization"):
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


def add_to_entry(proto: Any, parameters: Mapping[str, Any]) -> None:
    """Write ``parameters`` into the NpuOptimizer entry of ``proto``, which is changed."""
    rewrite_options = proto.graph_options.rewrite_options
    known = options_by_key(AdapterOptions)
    entry = next((o for o in rewrite_options.custom_optimizers if o.name == ENTRY_NAME), None)
    if entry is None:
        entry = rewrite_options.custom_optimizers.add()
        entry.name = ENTRY_NAME
    for key, value in parameters.items():
        field = known[key].field or ""
        setattr(entry.parameter_map[key], field, value.encode() if field == "s" else value)


def from_config_proto(model: Any, proto: Any) -> Any:
    """Read the entry of ``proto`` as a config; see `AscendConfig.from_config_proto`."""
    _check_type("proto", proto)
    values, problems = _read(proto)
    try:
        config = unflatten(model, values)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError.of(problems, f"the proto's {ENTRY_NAME} entry")
    return config


def read_entry(proto: Any) -> Dict[str, Any]:
    """Read the keys and values of the proto's NpuOptimizer entry; ``{}`` if it has none.

    Raises:
        ConfigError: On a wrong name, a second entry, or values in the wrong field; all at once.
    """
    values, problems = _read(proto)
    if problems:
        raise ConfigError.of(problems, f"the proto's {ENTRY_NAME} entry")
    return values


def _read(proto: Any) -> Tuple[Dict[str, Any], List[Finding]]:
    entries, problems = _entries(proto)
    values: Dict[str, Any] = {}
    known = options_by_key(AdapterOptions)
    for entry in entries[:1]:
        for key in sorted(entry.parameter_map):
            attribute = entry.parameter_map[key]
            problem = _field_problem(known.get(key), key, attribute)
            if problem is None:
                values[key] = _value(attribute)
            else:
                problems.append(problem)
    return values, problems


def _entries(proto: Any) -> Tuple[List[Any], List[Finding]]:
    optimizers = list(proto.graph_options.rewrite_options.custom_optimizers)
    entries = [o for o in optimizers if o.name == ENTRY_NAME]
    problems = [misnamed_entry(o.name) for o in optimizers if is_misnamed(o.name)]
    if len(entries) > 1:
        problems.append(several_entries(len(entries)))
    return entries, problems


def _field_problem(option: Optional[Option], key: str, attribute: Any) -> Optional[Finding]:
    field = attribute.WhichOneof("value")
    if option is None or option.field is None:
        return None
    if field == option.field:
        return _text_problem(key, attribute.s) if field == "s" else None
    return wrong_field(key, field, option.field)


def _text_problem(key: str, text: bytes) -> Optional[Finding]:
    try:
        text.decode()
    except UnicodeDecodeError:
        return Finding(ERROR, f"{key} holds {text!r}, which is not UTF-8 text.", option=key)
    return None


def _value(attribute: Any) -> Any:
    field = attribute.WhichOneof("value")
    value = getattr(attribute, field) if field else None
    return value.decode(errors="replace") if isinstance(value, bytes) else value


ENTRY_NAME = "NpuOptimizer"

OPTIMISES = {
    "memory_optimization": "TensorFlow then changes the graph to save memory before the adapter "
    "gets it, by other orders and by swapping to the host; the adapter's manual and samples turn "
    "it off.",
    "remapping": "TensorFlow then fuses operators into ones that only a CPU or GPU has, before the "
    "adapter gets the graph; the adapter's manual and samples turn it off.",
}
"""What a rewriter option does unless it is turned off."""

# RewriterConfig.OFF, which is MANUAL in the enum of memory_optimization, and that one's own word.
_OFF = {"memory_optimization": (1, 2), "remapping": (2,)}

REMAPPER = "remap"
"""The remapper's name in ``rewrite_options.optimizers``."""

_ZERO = {"s": "''", "i": "0", "b": "False"}


def is_misnamed(name: str) -> bool:
    """Whether ``name`` is meant to be the adapter's and is not."""
    return name != ENTRY_NAME and name.strip().lower().replace("_", "") == ENTRY_NAME.lower()


def misnamed_entry(name: str) -> Finding:
    """Report an entry whose name the adapter does not read."""
    return Finding(
        ERROR,
        f"The proto has an entry named {name!r}; the adapter reads {ENTRY_NAME!r} only and "
        "ignores this one without a word.",
        f"Rename it to {ENTRY_NAME!r}.",
        option=ENTRY_NAME,
    )


def several_entries(count: int) -> Finding:
    """Report a proto with more than one entry."""
    return Finding(
        ERROR,
        f"The proto has {count} entries named {ENTRY_NAME!r}; of each key the last "
        "one wins, and what the last one lacks goes back to defaults.",
        "Keep one entry.",
        option=ENTRY_NAME,
    )


def wrong_field(key: str, wrong: Optional[str], right: str) -> Finding:
    """Report a value in the field ``wrong`` (None: in none) instead of ``right``."""
    where = f"stands in the field {wrong!r}" if wrong else "is there without a value"
    return Finding(
        ERROR,
        f"{key} {where}; the adapter reads the field {right!r} and finds {_ZERO[right]}.",
        f'Write parameter_map["{key}"].{right} = ...',
        option=key,
    )


def left_on(name: str, value: int, listed: Sequence[str] = ()) -> Optional[str]:
    """Explain a rewriter option that an NPU session should not have on; None if it is off.

    A list of optimizers stands for all the switches: TensorFlow then runs those alone, and
    ``memory`` as MANUAL (meta_optimizer.cc). NPUEstimator writes such a list.

    Args:
        name: ``memory_optimization`` or ``remapping``.
        value: What it is in the session's proto.
        listed: ``rewrite_options.optimizers`` of that proto.
    """
    if listed:
        is_named = name == "remapping" and REMAPPER in listed
        return (
            f"rewrite_options.optimizers names {REMAPPER!r}. {OPTIMISES[name]}"
            if is_named
            else None
        )
    if value in _OFF[name]:
        return None
    return f"rewrite_options.{name} is not turned off. {OPTIMISES[name]}"

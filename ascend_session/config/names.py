"""Names that are often written but are not options: where they belong, or their replacement.

Source: guides/facts/former.md#former-names, guides/facts/adapter.md#unknown-keys.
"""

from typing import Any, Dict, Type

from ascend_session.config.hints import hint_for_name
from ascend_session.config.option import adapter_options, options_of
from ascend_session.findings import ERROR, Finding
from ascend_session.spelling import Message, code, template_of, write_in_file
from ascend_session.text import did_you_mean


def _write_point(name: str) -> str:
    """Return where a member of profiling_options belongs."""
    members = f'{{"{name}": "..."}}'
    written = code(
        f"profiling_config=ProfilingConfig(enable_profiling=True, profiling_options={members})",
        f"profiling_config: {{enable_profiling: true, profiling_options: {members}}}",
    )
    return Message(
        f"no adapter reads this key; it is a member of profiling_options. Write {written}."
    )


_PROFILING = code("profiling_config=ProfilingConfig(...)", "profiling_config: {...}")

# name -> why it is no option any more, and its replacement
OBSOLETE: Dict[str, str] = {
    "fp_point": _write_point("fp_point"),
    "bp_point": _write_point("bp_point"),
    "auto_tune_mode": "GE refuses any value of it. Use aoe_mode ('1', '2', '4').",
    "mstune_mode": "the adapter has not read it since 2021. Use aoe_mode ('1', '2', '4').",
    "enable_auto_mix_precision": "no adapter reads it. Use precision_mode 'allow_mix_precision'.",
    "enable_options": Message(f"no adapter reads it. Use {_PROFILING}."),
    "variable_location": "that is the adapter's internal name. Write variable_placement.",
}

REFUSED_BY_GE = ("auto_tune_mode",)
"""Former options that the adapter still sends to GE, which accepts only an empty value for them
(guides/facts/former.md#former-names)."""


def unknown_name(name: str, value: Any, model: Type[Any]) -> Finding:
    """Report a keyword that ``model`` does not have."""
    if name in OBSOLETE:
        return _obsolete_name(name)
    message = f"{model.__name__} has no option {name!r}"
    hint = hint_for_name(name)
    if hint is not None:
        return Finding(ERROR, f"{message}; the adapter would ignore it.", hint, option=name)
    options = adapter_options(model.whole)
    home = next((o.path for o in options if name in (o.key, o.name)), name)
    if home != name:
        hint = f"Write {_write_option(model.whole, home, repr(value))}."
        return Finding(ERROR, f"{message}.", hint, option=name)
    # The options of this class under their names, those of the parts under their paths
    paths = {option.name: option.path for option in options}
    paths.update((name, name) for name in options_of(model))
    near = did_you_mean(name, list(paths))
    hint = f"Did you mean {paths[near]}?" if near else "`ascend-session options` lists all options."
    return Finding(ERROR, f"{message}; the adapter would ignore it.", hint, option=name)


def unknown_key(key: str, model: Type[Any]) -> Finding:
    """Report a key of an NpuOptimizer entry that the adapter does not read.

    Args:
        key: The key.
        model: The class of all options.
    """
    if key in OBSOLETE:
        return _obsolete_name(key)
    ignored = f"The adapter has no key {key!r} and silently ignores it."
    hint = hint_for_name(key)
    if hint is not None:
        return Finding(ERROR, ignored, hint, option=key)
    options = adapter_options(model)
    for option in options:
        if option.field is None and option.key == key:
            message = f"{key} is an argument of NPURunConfig, not a key of the NpuOptimizer entry."
            hint = f"Write AscendConfig({write_keyword(model, option.path, '...')})."
            return Finding(ERROR, message, hint, option=key)
    if key in options_of(model):
        message = f"{key} holds several options, each of which has a key of its own in the entry."
        return Finding(ERROR, message, f"Write AscendConfig({key}=...), or the keys.", option=key)
    keys = [option.key for option in options if option.field is not None]
    named = [option.key for option in options if option.name == key]
    near = named[0] if named else did_you_mean(key, keys)
    hint = f"Did you mean {near!r}?" if near else "`ascend-session options` lists all keys."
    return Finding(ERROR, ignored, hint, option=key)


def write_keyword(model: Type[Any], path: str, value: str) -> str:
    """Return the keyword argument of ``model`` that sets ``path`` to ``value``."""
    *containers, leaf = path.split(".")
    before, after = "", ""
    for name in containers:
        model = options_of(model)[name].type.part or model
        before, after = f"{before}{name}={model.__name__}(", f"){after}"
    return f"{before}{leaf}={value}{after}"


def _write_option(model: Type[Any], path: str, value: str) -> str:
    """Return the placeholder of an option, or of one in a part, with a value."""
    in_file = write_in_file(path.rpartition(".")[2], value)
    return code(write_keyword(model, path, value), nest_in_file(path, in_file))


def nest_in_file(path: str, text: str) -> str:
    """Put a ``name: value`` line of YAML into the mappings of the parts that ``path`` names."""
    for part in reversed(path.split(".")[:-1]):
        text = f"{part}: {{{text}}}"
    return text


def _obsolete_name(name: str) -> Finding:
    message = f"{name} is a known name, but {template_of(OBSOLETE[name])}"
    return Finding(ERROR, message, option=name)

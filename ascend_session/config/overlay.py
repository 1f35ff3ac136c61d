"""Options that are set from outside a script, over what it sets: ``--set NAME=VALUE``.

An overlay maps options, by their paths such as ``dump_config.dump_step``, to values; None leaves an
option out. Processes get it as JSON by `SET_VARIABLE`.
"""

import json
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, TypeVar

from ascend_session.config.hints import hint_for_name
from ascend_session.config.model import ConfigModel
from ascend_session.config.names import OBSOLETE
from ascend_session.config.option import Option, adapter_options, option_fields
from ascend_session.config.options import AdapterOptions
from ascend_session.config.values import RefusedValueError, read_value
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.spelling import spell
from ascend_session.text import did_you_mean
from ascend_session.witness import SET_VARIABLE

Overlay = Mapping[str, Any]

_Model = TypeVar("_Model", bound=ConfigModel)

_TRUTHS = {"true": True, "false": False}


def parse_settings(words: Iterable[str]) -> Dict[str, Any]:
    """Read settings as they are typed: ``precision_mode=force_fp32``, or ``NAME=`` to leave out.

    Args:
        words: The settings. NAME is the path of an option or its key in the NpuOptimizer entry;
            true, false and numbers are read as the option's type says.

    Raises:
        ConfigError: For unknown names, values that the option does not take, and an option that is
            set twice to different values; all at once.
    """
    problems, given = [], []
    for word in words:
        name, equals, text = word.partition("=")
        if equals:
            given.append((name, text, True))
        else:
            message = f"{word!r} has no =. Write {word}=VALUE, or {word}= to leave the option out."
            problems.append(Finding(ERROR, message, option=word))
    return _read_settings(given, problems)


def check_overlay(overlay: Any) -> Dict[str, Any]:
    """Check an overlay with typed values, and return it with the paths of the options.

    Raises:
        ConfigError: If it is no mapping, and as from `parse_settings`.
    """
    if not isinstance(overlay, Mapping):
        kind = type(overlay).__name__
        raise ConfigError(f"A mapping of options to values is needed, this is {kind}: {overlay!r}.")
    return _read_settings([(name, value, False) for name, value in overlay.items()], [])


def _read_settings(
    given: Iterable[Tuple[Any, Any, bool]], problems: List[Finding]
) -> Dict[str, Any]:
    """Check names and values, each with whether it is a text that was typed."""
    settings: Dict[str, Any] = {}
    for name, value, is_text in given:
        try:
            option = _find_option(name)
            if is_text:
                value = None if value == "" else _convert(value, option)
            if value is not None:
                value = _check_value(option, value)
        except RefusedValueError as error:
            problems += error.problems
            continue
        if settings.setdefault(option.path, value) != value:
            message = f"{option.path} is set twice, to {settings[option.path]!r} and {value!r}."
            problems.append(Finding(ERROR, message, "Set it once.", option=option.path))
    if problems:
        raise ConfigError.from_problems(problems, "what is set from outside")
    return settings


def read_overlay(environ: Mapping[str, str]) -> Dict[str, Any]:
    """Read the overlay in an environment; empty without one.

    Raises:
        ConfigError: If `SET_VARIABLE` holds something else.
    """
    text = environ.get(SET_VARIABLE, "")
    if not text:
        return {}
    try:
        overlay = json.loads(text)
    except ValueError as error:
        hint = f"Give options with --set NAME=VALUE, or unset {SET_VARIABLE}."
        raise ConfigError(f"{SET_VARIABLE} is not JSON: {error}.", hint=hint) from None
    return check_overlay(overlay)


def overlay_options(config: _Model, overlay: Overlay) -> _Model:
    """Return a checked copy of a configuration, with the overlay's values in place of its own.

    Raises:
        ConfigError: As from the constructor.
    """
    values = config.given()
    for path in sorted(overlay, key=lambda each: each.count(".")):  # a part before its members
        *parts, name = path.split(".")
        inner = values
        for part in parts:
            members = inner.get(part) or {}
            members = members.given() if isinstance(members, ConfigModel) else members
            inner[part] = dict(members)
            inner = inner[part]
        inner[name] = overlay[path]
    return type(config)(**_without_unset(values))


def _without_unset(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Drop options that are None, and the parts in which nothing is left."""
    kept: Dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _without_unset(value) or None
        if value is not None:
            kept[name] = value
    return kept


def overlay_keys(overlay: Overlay) -> Dict[str, Any]:
    """Return the keys of an NpuOptimizer entry that an overlay sets; None for one it leaves out."""
    keys = {}
    for option in adapter_options(AdapterOptions):
        places = [option.path.rsplit(".", n)[0] for n in range(option.path.count(".") + 1)]
        if option.field is not None and any(place in overlay for place in places):
            keys[option.key] = overlay.get(option.path)
    return keys


def path_of_key(key: str) -> str:
    """Return the path of an option by its key in the NpuOptimizer entry."""
    return next(each.path for each in adapter_options(AdapterOptions) if each.key == key)


def describe_setting(path: str, value: Any) -> str:
    """Write an option as it is typed, ``precision_mode=force_fp32``."""
    text = "" if value is None else str(value)
    return f"{path}={text.lower() if isinstance(value, bool) else text}"


def list_settings(overlay: Overlay) -> str:
    """Write all options of an overlay as they are typed, with commas between them."""
    return ", ".join(describe_setting(*each) for each in overlay.items())


def describe_unused(overlay: Overlay, whose: str) -> str:
    """Say that nothing has read an overlay; empty for an empty one.

    Args:
        overlay: The overlay.
        whose: Whose sessions could have read it, such as ``rank 0``.
    """
    listed = list_settings(overlay)
    return listed and (
        f"{listed} (set from outside) had no effect: no session of {whose} has an NpuOptimizer "
        "entry."
    )


def _find_option(name: Any) -> Option:
    """Find an option by path or key.

    Raises:
        RefusedValueError: For a name that is none, or whose option is not part of an entry.
    """
    fields = list(option_fields(AdapterOptions))
    for option in fields:
        if name in (option.path, option.key):
            return _checked_option(option)
    if name in OBSOLETE:
        message = f"{name} is a known name, but {OBSOLETE[name]}"
        raise RefusedValueError(Finding(ERROR, message, option=name))
    message = f"There is no option {name!r}."
    hint = hint_for_name(str(name))
    if hint is None:
        names = {each.name: each.path for each in fields}
        names.update((spelling, each.path) for each in fields for spelling in (each.path, each.key))
        near = did_you_mean(str(name), list(names))
        hint = f"Did you mean {names[near]}?" if near else "`ascend-session options` lists them."
    raise RefusedValueError(Finding(ERROR, message, hint, option=str(name)))


def _checked_option(option: Option) -> Option:
    if option.field is None and option.type.part is None:
        message = (
            f"{option.path} is an argument of NPURunConfig, which no session reads; only options "
            "of the NpuOptimizer entry can be set from outside."
        )
        raise RefusedValueError(Finding(ERROR, message, option=option.path))
    return option


def _convert(text: str, option: Option) -> Any:
    """Read a text as the option's type says; return it unchanged if it is not of that type."""
    kind: Optional[Any] = option.type.kind
    if option.type.grammar is not None:
        return text
    if option.type.allowed:
        kind = type(option.type.allowed[0])
    if kind is bool:
        return _TRUTHS.get(text.lower(), text)
    if kind is int and re.fullmatch(r"-?[0-9]{1,20}", text):
        return int(text)
    return text


def _check_value(option: Option, value: Any) -> Any:
    if option.type.part is not None:
        members = [each for each in option_fields(AdapterOptions) if each.field is not None]
        first = next(each.path for each in members if each.path.startswith(f"{option.path}."))
        message = f"{option.path} holds several options, each of which is set by itself."
        hint = f"Write {first}=VALUE, or {option.path}= to leave all of them out."
        raise RefusedValueError(Finding(ERROR, message, hint, option=option.path))
    try:
        return read_value(option.path, value, option.type)
    except RefusedValueError as error:
        raise RefusedValueError(*map(_spell, error.problems)) from None


def _spell(finding: Finding) -> Finding:
    """Spell options as in Python, for a message that a command would spell as its own flags."""
    hint = None if finding.hint is None else spell(finding.hint, _write)
    return finding._replace(message=spell(finding.message, _write), hint=hint)


def _write(name: str, value: Optional[str]) -> str:
    return name if value is None else f"{name}={value}"

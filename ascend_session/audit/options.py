"""What the configuration's own definitions say of a key and a value of a script."""

from functools import lru_cache
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Tuple, Type

from pydantic import BaseModel

from ascend_session.audit.values import EnvironmentText, Known, OneOf
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.catalogue import references
from ascend_session.config.option import Option, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.parameter_map import unflatten
from ascend_session.errors import ConfigError, Problem

__all__ = ["Judged", "argument_problems", "judge", "known_option", "path_keys", "value_problems"]

_TAKES = {"s": "bytes are", "i": "an int is", "b": "True or False is"}
_STRICT = ("dynamic_dims", "experimental_accelerate_train_mode", "input_shape", "profiling_options")
_PYTHON = {"s": (bytes,), "i": (int,), "b": (int, float)}


class Judged(NamedTuple):
    """What a value written into a protobuf field comes to.

    Attributes:
        value: The option's value; None if it is not known or wrong.
        wrong_type: What Python says of it, or None.
        variable: The environment variable that ends the script if it is not set, or None.
        problems: What the option's definition says against it.
        certain: Whether each value it may have is wrong.
    """

    value: Any = None
    wrong_type: Optional[str] = None
    variable: Optional[str] = None
    problems: Tuple[Problem, ...] = ()
    certain: bool = True


@lru_cache(maxsize=None)
def known_option(key: str) -> Optional[Option]:
    """The option behind a key of the entry; None if no adapter reads the key."""
    option = options_by_key(AscendConfig).get(key)
    return option if option is not None and option.field is not None else None


@lru_cache(maxsize=None)
def path_keys() -> FrozenSet[str]:
    """The keys and arguments that are paths."""
    return frozenset(
        each.key or each.name for each in references() if each.types.split(" or ")[0] == "path"
    )


def judge(option: Option, value: Any, old: bool = False) -> Judged:
    """Looks at what is assigned to the right field of ``option``.

    Args:
        option: The option.
        value: What the reader knows of the value.
        old: Whether the script is of Python 2, where text is bytes.
    """
    if isinstance(value, EnvironmentText):
        return Judged(variable=value.name)
    if isinstance(value, OneOf):
        each = [judge(option, one, old) for one in value.values]
        bad = [one for one in each if one.wrong_type or one.problems]
        return bad[0]._replace(value=None, certain=len(bad) == len(each)) if bad else Judged()
    if not isinstance(value, Known):
        return Judged()
    field, given = option.field or "", value.value
    if old and field == "s" and isinstance(given, str):
        given = given.encode()
    if not isinstance(given, _PYTHON[field]):
        kind = "None" if given is None else f"a value of type {type(given).__name__}"
        return Judged(wrong_type=f"{_TAKES[field]} needed, this is {kind}")
    problems = value_problems(option.key, _read_back(field, given))
    if problems and option.dead:
        return Judged()
    if problems:
        return Judged(problems=problems, certain=given not in (b"", -1) and _is_strict(option.key))
    return Judged(value=_read_back(field, given))


@lru_cache(maxsize=None)
def _is_strict(key: str) -> bool:
    """Whether the adapter or GE takes nothing but what the definition says.

    Of most texts with a grammar only its main form is documented, and blanks may pass.
    """
    free = {each.key for each in references() if each.grammar is not None}
    return key not in free or key in _STRICT


def _read_back(field: str, given: Any) -> Any:
    if field == "s":
        return given.decode(errors="replace")
    return bool(given) if field == "b" else int(given)


@lru_cache(maxsize=4096, typed=True)
def value_problems(key: str, value: Any) -> Tuple[Problem, ...]:
    """What the definition of a key says against a value."""
    try:
        unflatten(AdapterOptions, {key: value})
    except ConfigError as error:
        return error.problems
    return ()


def argument_problems(model: Type[BaseModel], values: Dict[str, Any]) -> Tuple[Problem, ...]:
    """What a class of options says against its arguments, each looked at alone."""
    try:
        model(**values)
    except ConfigError as error:
        return error.problems
    return ()

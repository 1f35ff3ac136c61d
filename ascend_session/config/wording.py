"""How pydantic's findings about one option are said: what was asked, what was found, what to do."""

from typing import Any, Iterator, List, Optional, Type

from pydantic import BaseModel, ValidationError
from typing_extensions import Literal, get_args, get_origin

from ascend_session.config.names import did_you_mean, unknown_name
from ascend_session.config.option import part_of
from ascend_session.errors import ConfigError, Problem

__all__ = ["problems_of"]

# Two vocabularies for the same thing, which are mixed up
_SIBLINGS = {"precision_mode": "precision_mode_v2", "precision_mode_v2": "precision_mode"}

_TYPES = {
    "string_type": "text (str)",
    "int_type": "a whole number (int)",
    "bool_type": "True or False (bool)",
    "float_type": "a number",
    "path_type": "a path (str or os.PathLike)",
}


def problems_of(error: ValidationError, model: Type[BaseModel]) -> List[Problem]:
    """Rewords each finding of ``error`` about ``model`` (one Problem an option)."""
    return [problem for finding in error.errors() for problem in _reword(finding, model)]


def _reword(finding: Any, model: Type[BaseModel]) -> Iterator[Problem]:
    inner = finding.get("ctx", {}).get("error")
    name = str(finding["loc"][0])
    if isinstance(inner, ConfigError):  # a part of the configuration, given as a mapping
        for problem in inner.problems:
            if problem.option == name:  # a file that the option points to, as fields
                yield problem._replace(message=f"{name}: {problem.message}")
            else:
                yield problem._replace(option=f"{name}.{problem.option}")
    elif finding["type"] == "extra_forbidden":
        yield unknown_name(name, finding["input"], model)
    elif inner is not None:  # a grammar of values.py speaks in sentences of its own
        yield Problem(name, f"{name}: {inner}")
    else:
        yield _about_value(name, finding, model)


def _about_value(name: str, finding: Any, model: Type[BaseModel]) -> Problem:
    annotation = model.model_fields[name].annotation
    given = finding["input"]
    said = f"{name}={given!r}"
    kind = finding["type"]
    if kind == "literal_error":
        problem = _not_allowed(name, given, _allowed(annotation))
        sibling = _SIBLINGS.get(name, "")
        if sibling and given in _allowed(model.model_fields[sibling].annotation):
            return problem._replace(hint=f"That is a value of {sibling}.")
        return problem
    if kind in _TYPES:
        found = f"{said}: {_TYPES[kind]} is needed, this is {_type_name(given)}."
        return Problem(name, found, _conversion(name, given, kind))
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = finding["ctx"]["ge" if kind.startswith("g") else "le"]
        word = "smallest" if kind.startswith("g") else "largest"
        return Problem(name, f"{said}: the {word} value is {bound}.")
    if kind in ("model_type", "dataclass_type", "model_attributes_type"):
        part = getattr(part_of(annotation), "__name__", "mapping")
        found = f"{name}: a {part} is needed, this is {_type_name(given)}."
        return Problem(name, found, f"Write {name}={part}(...).")
    return Problem(name, f"{said}: {finding['msg']}.")


def _allowed(annotation: Any) -> List[Any]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    for member in get_args(annotation):
        allowed = _allowed(member)
        if allowed:
            return allowed
    return []


def _not_allowed(name: str, given: Any, allowed: List[Any]) -> Problem:
    listed = ", ".join(repr(value) for value in allowed)
    kind = "" if type(given) in {type(value) for value in allowed} else f" ({_type_name(given)})"
    found = f"{name}={given!r}{kind}: allowed are {listed}."
    twin = next((v for v in allowed if str(v).lower() == str(given).lower()), None)
    if isinstance(given, bool):
        twin = next((v for v in (twin, int(given), str(int(given))) if v in allowed), None)
    near = twin if twin is not None else did_you_mean(str(given), [str(v) for v in allowed])
    return Problem(name, found, None if near is None else f"Write {name}={near!r}.")


def _conversion(name: str, given: Any, kind: str) -> Optional[str]:
    if kind == "bool_type" and given in (0, 1):
        return f"Write {name}={bool(given)}."
    if kind == "int_type" and isinstance(given, str) and given.strip().lstrip("-").isdigit():
        return f"Write {name}={int(given)}, without quotes."
    if kind == "string_type" and isinstance(given, bytes):
        return f"Decode it: {name}={given.decode(errors='replace')!r}."
    if kind == "string_type" and isinstance(given, (int, float)):
        return f'Write {name}="{given}".'
    return None


def _type_name(value: Any) -> str:
    return type(value).__name__

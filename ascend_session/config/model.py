"""The base of all config classes: frozen, strict about types and names, all problems at once.

pydantic does the checking; its messages are reworded here, so that a user reads sentences about
options and never about "literal_error" or "extra_forbidden".
"""

import re
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Type

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from typing_extensions import Literal, get_args, get_origin, get_type_hints

from ascend_session.config.grammars import show_value
from ascend_session.config.names import unknown_name
from ascend_session.config.option import part_of
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.spelling import Message, code, option, template_of
from ascend_session.text import did_you_mean, is_writable

if TYPE_CHECKING:
    _Metaclass = type
else:

    class _Metaclass(type(BaseModel)):
        """Gives config classes a signature that a person can read.

        pydantic's has the validators of each type, and it sets it when it builds the class.
        """

        @property
        def __signature__(cls) -> Signature:
            kind = Parameter.KEYWORD_ONLY
            if issubclass(cls, ConfigPart):
                kind = Parameter.POSITIONAL_OR_KEYWORD
            types = get_type_hints(cls)
            return Signature(
                [
                    Parameter(name, kind, default=None, annotation=types[name])
                    for name in cls.model_fields
                ]
            )

        @__signature__.setter
        def __signature__(cls, signature: Signature) -> None:
            pass


class ConfigModel(BaseModel, metaclass=_Metaclass):
    """A frozen set of options: what is not set is None and stays unwritten."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        arbitrary_types_allowed=True,
        defer_build=True,
        protected_namespaces=(),  # the vendor's own names begin with model_
    )

    if not TYPE_CHECKING:
        # Not called self: a file may say "self: 1", which is an unknown option like any other.
        def __init__(__self, *args: Any, **values: Any) -> None:  # noqa: N805
            values.update(__self._positional(args, values))
            # pydantic looks at nothing else if there is a name that is not UTF-8 text.
            known = {name: values[name] for name in values if is_writable(name, strict=True)}
            stray = [name for name in values if name not in known]
            problems = [unknown_name(name, values[name], type(__self)) for name in stray]
            try:
                super().__init__(**known)
            except ValidationError as error:
                problems += problems_of(error, type(__self))
            if problems:
                raise __self._refusal(problems, values)

    @field_validator("*")
    @classmethod
    def _check_text(cls, value: Any) -> Any:
        """Refuse text with half a surrogate pair, which no protobuf can hold."""
        if isinstance(value, str) and not is_writable(value, strict=True):
            raise PydanticCustomError("string_unicode", "not UTF-8 text")
        return value

    @classmethod
    def _positional(cls, args: Tuple[Any, ...], values: Dict[str, Any]) -> Dict[str, Any]:
        if args:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, as {cls.__name__}(name=value)."
            )
        return {}

    @classmethod
    def _refusal(cls, problems: List[Finding], values: Dict[str, Any]) -> ConfigError:
        """Make the error for values whose types are wrong; a subclass may add to it."""
        return ConfigError.of(problems, f"this {cls.__name__}")

    def given(self) -> Dict[str, Any]:
        """Give the options that are set, in the order of definition: ``{name: value}``."""
        values = self.__dict__
        return {
            name: values[name] for name in self.__class__.model_fields if values[name] is not None
        }

    def __setattr__(self, name: str, value: Any) -> None:
        raise self._frozen(name)

    def __delattr__(self, name: str) -> None:
        raise self._frozen(name)

    def _frozen(self, name: str) -> AttributeError:
        kind = type(self).__name__
        return AttributeError(
            f"This {kind} does not change: {name} cannot be set. Make another one with "
            f"{'cfg.replace' if hasattr(self, 'replace') else kind}({name}=...)."
        )

    def __repr_args__(self) -> Any:
        return self.given().items()


class ConfigPart(ConfigModel):
    """A part of the configuration; like the vendor's class it also takes positional arguments."""

    @classmethod
    def _positional(cls, args: Tuple[Any, ...], values: Dict[str, Any]) -> Dict[str, Any]:
        names = list(cls.model_fields)
        if len(args) > len(names):
            raise TypeError(
                f"{cls.__name__} takes at most {len(names)} arguments, got {len(args)}."
            )
        named = dict(zip(names, args))
        twice = [name for name in named if name in values]
        if twice:
            raise TypeError(
                f"{cls.__name__} got {', '.join(twice)} twice: by position and by name."
            )
        return named


# Two vocabularies for the same thing, which are mixed up
_SIBLINGS = {"precision_mode": "precision_mode_v2", "precision_mode_v2": "precision_mode"}

_TYPES = {
    "string_type": "text (str)",
    "int_type": "a whole number (int)",
    "bool_type": code("True or False (bool)", "true or false"),
    "float_type": "a number",
    "path_type": "a path (str or os.PathLike)",
}


def problems_of(error: ValidationError, model: Type[BaseModel]) -> List[Finding]:
    """Reword what pydantic says of ``model``, one finding an option."""
    return [problem for finding in error.errors() for problem in _reword(finding, model)]


def _reword(finding: Any, model: Type[BaseModel]) -> Iterator[Finding]:
    inner = finding.get("ctx", {}).get("error")
    name = str(finding["loc"][0])
    if isinstance(inner, ConfigError):  # a part of the configuration, given as a mapping
        for problem in inner.problems:
            if problem.option == name:  # a file that the option points to, as fields
                yield problem._replace(message=Message(f"{name}: {template_of(problem.message)}"))
            else:
                yield problem._replace(option=f"{name}.{problem.option}")
    elif finding["type"] == "extra_forbidden":
        yield unknown_name(name, finding["input"], model)
    elif inner is not None:  # a grammar speaks in sentences of its own
        yield Finding(ERROR, f"{name}: {inner}", option=name)
    else:
        yield _about_value(name, finding, model)


def _about_value(name: str, finding: Any, model: Type[BaseModel]) -> Finding:
    annotation = model.model_fields[name].annotation
    given = finding["input"]
    written = option(name, given, write=show_value)
    kind = finding["type"]
    if kind == "string_unicode":  # of _check_text, or of pydantic for a Literal
        message = f"{written}: this is not UTF-8 text (half a surrogate pair)."
        return Finding(ERROR, message, option=name)
    if kind == "literal_error":
        problem = _not_allowed(name, given, allowed_values(annotation))
        sibling = _SIBLINGS.get(name, "")
        if sibling and given in allowed_values(model.model_fields[sibling].annotation):
            return problem._replace(hint=f"That is a value of {sibling}.")
        return problem
    if kind in _TYPES:
        message = f"{written}: this must be {_TYPES[kind]}, not {_type_name(given)}."
        return Finding(ERROR, message, _conversion(name, given, kind), option=name)
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = finding["ctx"]["ge" if kind.startswith("g") else "le"]
        word = "smallest" if kind.startswith("g") else "largest"
        return Finding(ERROR, f"{written}: the {word} value is {bound}.", option=name)
    if kind == "greater_than":
        return Finding(ERROR, f"{written}: it must be above {finding['ctx']['gt']:g}.", option=name)
    if kind == "config_proto_type":  # of types.CONFIG_PROTO; a proto has many lines to show
        message = f"{name}: this must be a tf.ConfigProto, not {_type_name(given)}."
        return Finding(ERROR, message, option=name)
    if kind in ("model_type", "dataclass_type", "model_attributes_type"):
        part = getattr(part_of(annotation), "__name__", "mapping")
        written = code(f"{name}={part}(...)", f"{name}: {{...}}")
        message = f"{name}: this must be a {code(part, 'mapping')}, not {_type_name(given)}."
        return Finding(ERROR, message, f"Write {written}.", option=name)
    return Finding(ERROR, f"{written}: {finding['msg']}.", option=name)


def allowed_values(annotation: Any) -> List[Any]:
    """List the values that a type counts up; empty if it does not."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    for member in get_args(annotation):
        allowed = allowed_values(member)
        if allowed:
            return allowed
    return []


def _not_allowed(name: str, given: Any, allowed: List[Any]) -> Finding:
    listed = ", ".join(repr(value) for value in allowed)
    kind = "" if type(given) in {type(value) for value in allowed} else f" ({_type_name(given)})"
    text = show_value(given, str)
    message = f"{option(name, given, write=show_value)}{kind} is not one of {listed}."
    twin = next((v for v in allowed if str(v).lower() == text.lower()), None)
    if isinstance(given, bool):
        twin = next((v for v in (twin, int(given), str(int(given))) if v in allowed), None)
    near = twin
    if near is None and isinstance(given, str):
        near = did_you_mean(text, [each for each in allowed if isinstance(each, str)])
    hint = None if near is None else f"Write {option(name, near)}."
    return Finding(ERROR, message, hint, option=name)


_TRUTHS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_INTEGER = r"\s*-?[0-9]{1,20}\s*"


def _conversion(name: str, given: Any, kind: str) -> Optional[str]:
    text = show_value(given, str)
    if kind == "bool_type" and text.lower() in _TRUTHS:
        return f"Write {option(name, _TRUTHS[text.lower()])}."
    if kind == "int_type" and isinstance(given, str) and re.fullmatch(_INTEGER, given):
        return f"Write {option(name, int(given))}, without quotes."
    if kind == "string_type" and isinstance(given, bytes):
        return f"Decode it: {option(name, given.decode(errors='replace'))}."
    if kind == "string_type" and isinstance(given, (int, float)):
        written = option(name, text, write='"{}"'.format)
        return f"Write {written}."
    return None


def _type_name(value: Any) -> str:
    return type(value).__name__

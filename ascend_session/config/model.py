"""The base of all config classes: frozen, strict types and names, all problems reported at once.

Each is an attrs class whose fields are its options. It has its own ``__init__``, because that of
attrs stops at the first wrong value.
"""

from copy import copy
from inspect import Parameter, Signature
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Dict,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

import attr
from typing_extensions import dataclass_transform

from ascend_session.config.hints import SIBLINGS
from ascend_session.config.names import unknown_name
from ascend_session.config.option import options_of
from ascend_session.config.values import RefusedValueError, read_value
from ascend_session.errors import ConfigError
from ascend_session.findings import Finding

_Model = TypeVar("_Model", bound="ConfigModel")


class _LazySignature:
    """The signature of a config class, made on first access."""

    def __get__(self, instance: Any, model: Any) -> Signature:
        is_part = issubclass(model, ConfigPart)
        kind = Parameter.POSITIONAL_OR_KEYWORD if is_part else Parameter.KEYWORD_ONLY
        return Signature(
            [
                Parameter(name, kind, default=None, annotation=Optional[option.type.kind])
                for name, option in options_of(model).items()
            ]
        )


@dataclass_transform(kw_only_default=True, frozen_default=True)
class ConfigModel:
    """A frozen set of options; unset ones are None and are not written."""

    whole: ClassVar[Type["ConfigModel"]]
    """The class of all options, of which the others are parts."""

    __signature__ = _LazySignature()

    def __init_subclass__(cls, whole: bool = False) -> None:
        if whole:
            ConfigModel.whole = cls
        attr.s(cls, auto_attribs=True, collect_by_mro=True, init=False, repr=False, hash=True)

    if not TYPE_CHECKING:
        # Not called self: a file may say "self: 1", which is an unknown option like any other.
        def __init__(__self, *args: Any, **given: Any) -> None:  # noqa: N805
            given.update(__self._positional(args, given))
            options = options_of(type(__self))
            problems: List[Finding] = []
            for name, option in options.items():
                value = given.get(name)
                if value is not None:
                    try:
                        value = read_value(name, value, option.type)
                    except RefusedValueError as error:
                        problems += __self._with_hint_to_sibling(name, value, error.problems)
                __self.__dict__[name] = value
            unknown = [name for name in given if name not in options]
            problems += [unknown_name(name, given[name], type(__self)) for name in unknown]
            if problems:
                raise __self._refusal(problems, given)

    @classmethod
    def _with_hint_to_sibling(
        cls, name: str, value: Any, problems: Sequence[Finding]
    ) -> Sequence[Finding]:
        sibling = options_of(cls).get(SIBLINGS.get(name, ""))
        if sibling is None or value not in sibling.type.allowed:
            return problems
        hint = f"That is a value of {sibling.name}."
        return [problem._replace(hint=hint) for problem in problems]

    @classmethod
    def _positional(cls, args: Tuple[Any, ...], given: Dict[str, Any]) -> Dict[str, Any]:
        if args:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, as {cls.__name__}(name=value)."
            )
        return {}

    @classmethod
    def _refusal(cls, problems: List[Finding], given: Dict[str, Any]) -> ConfigError:
        """Return the error for values of wrong types; a subclass may add to it."""
        return ConfigError.from_problems(problems, f"this {cls.__name__}")

    def given(self) -> Dict[str, Any]:
        """Return the options that are set, in the order of definition: ``{name: value}``."""
        values = self.__dict__
        return {name: values[name] for name in options_of(type(self)) if values[name] is not None}

    def copy_with(self: _Model, **checked: Any) -> _Model:
        """Return a copy with values that were checked before, without warning again."""
        other = copy(self)
        vars(other).update(checked)
        return other

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

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.given().items())
        return f"{type(self).__name__}({given})"


@dataclass_transform(frozen_default=True)
class ConfigPart(ConfigModel):
    """A part of the configuration; like the vendor's class it also takes positional arguments."""

    @classmethod
    def _positional(cls, args: Tuple[Any, ...], given: Dict[str, Any]) -> Dict[str, Any]:
        names = list(options_of(cls))
        if len(args) > len(names):
            raise TypeError(
                f"{cls.__name__} takes at most {len(names)} arguments, got {len(args)}."
            )
        named = dict(zip(names, args))
        twice = [name for name in named if name in given]
        if twice:
            raise TypeError(
                f"{cls.__name__} got {', '.join(twice)} twice: by position and by name."
            )
        return named

"""The base of all config classes: frozen, strict about types and names, all problems at once.

pydantic does the checking; what it says is reworded here, so that a user reads sentences about
options and never about "literal_error" or "extra_forbidden".
"""

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from pydantic import BaseModel, ConfigDict, ValidationError

from ascend_session.config.wording import problems_of
from ascend_session.errors import ConfigError, Problem

__all__ = ["ConfigModel", "ConfigPart"]


class ConfigModel(BaseModel):
    """A frozen set of options: what was not said is None and stays unwritten."""

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
            try:
                super().__init__(**values)
            except ValidationError as error:
                problems = problems_of(error, type(__self))
                raise __self._refusal(problems, values) from None

    @classmethod
    def _positional(cls, args: Tuple[Any, ...], values: Dict[str, Any]) -> Dict[str, Any]:
        if args:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, as {cls.__name__}(name=value)."
            )
        return {}

    @classmethod
    def _refusal(cls, problems: List[Problem], values: Dict[str, Any]) -> ConfigError:
        """The error for values whose types are wrong; a subclass may add to it."""
        return ConfigError.of(problems, f"this {cls.__name__}")

    def given(self) -> Dict[str, Any]:
        """The options that were said, in the order of definition: ``{name: value}``."""
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
            f"A {kind} does not change: {name} cannot be set. Make another one with "
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

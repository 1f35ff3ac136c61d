"""The record that defines one option, and tables of all options.

A field ``name: Annotated[type, Option(...)] = None`` of a config class is the only definition of
that option. Everything else (the NpuOptimizer entry, the reference that the command prints, the
rules about scope and deprecation) is derived from it.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar, cast

import attr
from typing_extensions import get_args

from ascend_session.config.ends import Ends
from ascend_session.config.values import UNKNOWN, ValueType

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """One option: the facts on its line of definition, and its place in the configuration.

    Attributes:
        field: The protobuf field the adapter reads (``s`` text, ``i`` integer, ``b`` bool), or
            None for an option that never becomes a key.
        scope: When it is read: ``init`` (first initialisation of the process), ``session``,
            ``graph``, ``pass`` (the adapter's own graph passes), ``NPURunConfig`` (by that class
            only) or ``unread``; empty for a part, which holds other options.
        doc: What it does, in one sentence.
        key: The vendor's key in the NpuOptimizer entry; for options that only NPURunConfig
            reads, the keyword. It is the field's name unless the definition says otherwise.
        adapter: The adapter's default, None if it has none.
        run_config: NPURunConfig's default if it differs from the adapter's.
        product: The product's default, if the adapter sends nothing.
        unit: ``bytes``, ``s`` or ``ms``.
        deprecated: Whether the vendor's manual says so.
        replacement: What to use instead.
        applies: The products or uses that it is limited to.
        other_scopes: Scopes, besides `scope`, at which it is also sent.
        sticky: Whether the value stays in the process after its session has closed.
        is_unread: Whether nothing in the stack reads it any more.
        always: Whether NPUEstimator writes it into the entry even if it is the default.
        left_out: Whether its argument of NPURunConfig is None by default, so that the entry lacks
            it, although the adapter has a default.
        raw_only: Whether NPURunConfig has no argument for it, so that only a raw session gets it
            (guides/facts/adapter.md#options-without-an-argument-of-npurunconfig).
        group: The title of the group of options that begins with it, if one does.
        ends: The components that end a run on a device for a wrong value; empty if none checks it.
        pages: Pages of the manual that describe it, as keys of `reference.PAGES`.
        path: Its place in Python, for example ``dump_config.dump_path``; the table fills it in,
            like ``type``.
        type: The type of its value.
    """

    field: Optional[str]
    scope: str
    doc: str
    key: str = ""
    adapter: Any = None
    run_config: Any = None
    product: Any = None
    unit: Optional[str] = None
    deprecated: bool = False
    replacement: Optional[str] = None
    applies: Optional[str] = None
    other_scopes: Tuple[str, ...] = ()
    sticky: bool = False
    is_unread: bool = False
    always: bool = False
    left_out: bool = False
    raw_only: bool = False
    group: str = ""
    ends: Tuple[Ends, ...] = ()
    pages: Tuple[str, ...] = ()
    path: str = ""
    type: ValueType = UNKNOWN

    @property
    def name(self) -> str:
        """The last part of ``path``: the field's name in its class."""
        return self.path.rpartition(".")[2]

    @property
    def is_object(self) -> bool:
        """True if its value is a Python object, which no file can hold."""
        return self.type.kind is object

    @property
    def argument_default(self) -> Any:
        """The default of its argument of NPURunConfig, or of a part of that."""
        if self.left_out:
            return None
        return self.adapter if self.run_config is None else self.run_config

    @property
    def run_config_default(self) -> Any:
        """What NPURunConfig writes where that differs from the adapter's default, else None."""
        return None if self.run_config == self.adapter else self.run_config


def _once(function: _Function) -> _Function:
    """Cache a result per class; mypy does not accept a class as hashable for lru_cache."""
    return cast(_Function, lru_cache(maxsize=None)(function))


@_once
def options_of(model: Type[Any]) -> Dict[str, Option]:
    """Map the fields of a config class to their options, in the order of definition."""
    options = {}
    for field in attr.fields(model):
        annotation, *extras = get_args(field.type)
        option = next(each for each in extras if isinstance(each, Option))
        options[field.name] = replace(
            option,
            key=option.key or field.name,
            path=field.name,
            type=ValueType.from_annotation(annotation),
        )
    return options


def option_fields(model: Type[Any], prefix: str = "") -> Iterator[Option]:
    """Yield the options of a config class and of its parts, in the order of definition."""
    for name, option in options_of(model).items():
        yield replace(option, path=prefix + name)
        if option.type.part is not None:
            yield from option_fields(option.type.part, f"{prefix}{name}.")


@_once
def adapter_options(model: Type[Any]) -> List[Option]:
    """List the options of ``model`` and its parts, without the parts."""
    return [option for option in option_fields(model) if option.type.part is None]


@_once
def options_by_key(model: Type[Any]) -> Dict[str, Option]:
    """Map vendor keys (or NPURunConfig keywords) to the options of ``model``."""
    return {option.key: option for option in adapter_options(model)}


@_once
def keys_by_name(model: Type[Any]) -> Dict[str, str]:
    """Map all names that findings call options by (key, name and path) to the vendor keys."""
    options = adapter_options(model)
    return {name: each.key for each in options for name in (each.path, each.name, each.key)}

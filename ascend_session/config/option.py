"""What one option is: the record that its definition holds, and the table of all of them.

A field ``name: Annotated[type, Option(...)] = None`` of a config class is the only definition of
that option. Everything else (the NpuOptimizer entry, the reference that the command prints, the
rules about scope and deprecation) is derived from it.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

from pydantic import BaseModel
from typing_extensions import get_args


@dataclass(frozen=True)
class Option:
    """One option; what stands on the line that defines it, and its place in the configuration.

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
        run_config: NPURunConfig's default where it differs from the adapter's.
        product: What the product uses when nothing is sent.
        unit: ``bytes``, ``s`` or ``ms``.
        deprecated: Whether the vendor's manual says so.
        use: What to use instead.
        applies: Products or uses that it is limited to.
        also: Further scopes it is sent at.
        sticky: Whether the value stays in the process after its session has gone.
        dead: Whether nothing in the stack reads it any more.
        raw_only: Whether NPURunConfig has no argument for it, so that only a raw session gets it
            (guides/facts/adapter.md#options-without-an-argument-of-npurunconfig).
        group: The title of the group of options that begins with it, if one does.
        pages: Digits for the pages of the manual that describe it; see `reference.PAGES`.
        path: Where it stands in Python, for example ``dump_config.dump_path``; the table fills
            it in, like ``annotation``.
        annotation: The Python type of the field.
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
    use: Optional[str] = None
    applies: Optional[str] = None
    also: Tuple[str, ...] = ()
    sticky: bool = False
    dead: bool = False
    raw_only: bool = False
    group: str = ""
    pages: str = ""
    path: str = ""
    annotation: Any = None

    @property
    def name(self) -> str:
        """The last part of ``path``: the field's name in its class."""
        return self.path.rpartition(".")[2]

    @property
    def is_object(self) -> bool:
        """Whether its value is a Python object, which no file can hold."""
        return object in get_args(self.annotation)

    @property
    def run_config_default(self) -> Any:
        """What NPURunConfig writes where that differs from the adapter's default, else None."""
        return None if self.run_config == self.adapter else self.run_config


def option_fields(model: Type[BaseModel], prefix: str = "") -> Iterator[Option]:
    """Yield the options of a config class and of its parts, in the order of definition."""
    for name, info in model.model_fields.items():
        option = next(each for each in info.metadata if isinstance(each, Option))
        key, path = option.key or name, prefix + name
        yield replace(option, key=key, path=path, annotation=info.annotation)
        part = part_of(info.annotation)
        if part is not None:
            yield from option_fields(part, f"{path}.")


def part_of(annotation: Any) -> Optional[Type[BaseModel]]:
    """Give the config class inside ``Optional[...]``, None for an ordinary option."""
    for member in get_args(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            return member
    return None


@lru_cache(maxsize=None)
def adapter_options(model: Type[BaseModel]) -> List[Option]:
    """List the options of ``model`` and its parts, without the parts."""
    return [option for option in option_fields(model) if part_of(option.annotation) is None]


@lru_cache(maxsize=None)
def options_by_key(model: Type[BaseModel]) -> Dict[str, Option]:
    """Map vendor keys (or NPURunConfig keywords) to the options of ``model``."""
    return {option.key: option for option in adapter_options(model)}


@lru_cache(maxsize=None)
def keys_by_name(model: Type[BaseModel]) -> Dict[str, str]:
    """Map all names that findings call options by (key, name and path) to the vendor keys."""
    options = adapter_options(model)
    return {name: each.key for each in options for name in (each.path, each.name, each.key)}

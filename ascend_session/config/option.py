"""What one option is: the line that defines it, and the table read back from those lines.

A field ``name: type = option(...)`` of a config class is the only definition of that option.
Everything else (the NpuOptimizer entry, the reference that the command prints, the rules about
scope and deprecation) is derived from it here.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Type

from pydantic import BaseModel, Field
from typing_extensions import get_args

__all__ = ["Option", "adapter_options", "option", "option_fields", "options_by_key", "part_of"]


class Option(NamedTuple):
    """One option, as its definition says.

    Attributes:
        path: Where it stands in Python, for example ``dump_config.dump_path``.
        key: The vendor's key in the NpuOptimizer entry; for options that only NPURunConfig
            reads, the keyword.
        field: The protobuf field the adapter reads (``s`` text, ``i`` integer, ``b`` bool), or
            None for an option that never becomes a key.
        scope: When the adapter reads it: ``init`` (first initialisation of the process),
            ``session``, ``graph``, ``pass`` (the adapter's own graph passes) or None.
        doc: What it does, in one sentence.
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
        seeds: Numbers of the seed documents that describe it.
        annotation: The Python type of the field.
    """

    path: str
    key: str
    field: Optional[str]
    scope: Optional[str]
    doc: str
    adapter: Any
    run_config: Any
    product: Any
    unit: Optional[str]
    deprecated: bool
    use: Optional[str]
    applies: Optional[str]
    also: Tuple[str, ...]
    sticky: bool
    dead: bool
    seeds: str
    annotation: Any

    @property
    def name(self) -> str:
        """The last part of ``path``: the field's name in its class."""
        return self.path.rpartition(".")[2]

    @property
    def run_config_differs(self) -> bool:
        """Whether NPURunConfig writes another default than the adapter's own."""
        return self.run_config is not None and self.run_config != self.adapter


def option(
    field: Optional[str],
    scope: Optional[str],
    doc: str,
    *,
    key: Optional[str] = None,
    adapter: Any = None,
    run_config: Any = None,
    product: Any = None,
    unit: Optional[str] = None,
    deprecated: bool = False,
    use: Optional[str] = None,
    applies: Optional[str] = None,
    also: Tuple[str, ...] = (),
    sticky: bool = False,
    dead: bool = False,
    seeds: str = "",
) -> Any:
    """Defines one option on one line; the arguments are the attributes of `Option`."""
    facts = dict(locals())
    return Field(default=None, description=doc, json_schema_extra={"ascend": facts})


def option_fields(model: Type[BaseModel], prefix: str = "") -> Iterator[Option]:
    """Yields the options of a config class and of its parts, in the order of definition."""
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra
        assert isinstance(extra, dict)
        facts: Dict[str, Any] = dict(extra["ascend"])  # type: ignore[arg-type]
        facts["key"] = facts["key"] or name
        part = part_of(info.annotation)
        yield Option(path=prefix + name, annotation=info.annotation, **facts)
        if part is not None:
            yield from option_fields(part, f"{prefix}{name}.")


def part_of(annotation: Any) -> Optional[Type[BaseModel]]:
    """The config class inside ``Optional[...]``, None for an ordinary option."""
    for member in get_args(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            return member
    return None


_tables: Dict[Type[BaseModel], List[Option]] = {}


def adapter_options(model: Type[BaseModel]) -> List[Option]:
    """All options of ``model`` and its parts but the containers; computed once per class."""
    if model not in _tables:
        _tables[model] = [o for o in option_fields(model) if part_of(o.annotation) is None]
    return _tables[model]


def options_by_key(model: Type[BaseModel]) -> Dict[str, Option]:
    """The options of ``model`` by vendor key (or NPURunConfig keyword)."""
    return {entry.key: entry for entry in adapter_options(model)}

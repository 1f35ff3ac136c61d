"""What may be written as the value of an option: types, allowed values and range, in words.

Everything is read back from the option's definition: from the JSON schema that pydantic makes of
its type, and from the docstring of the grammar of its text.
"""

import inspect
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Type

from pydantic import BaseModel, BeforeValidator
from typing_extensions import get_args

from ascend_session.config.option import part_of

__all__ = ["Kind", "kind_of", "listed", "value_schema"]

_WORDS = {
    "string": "str",
    "integer": "int",
    "boolean": "bool",
    "number": "float",
    "array": "list",
    "object": "mapping",
}
_NULL = {"type": "null"}


class Kind(NamedTuple):
    """The values of one option.

    Attributes:
        types: Python types in words, for example ``str, int or list``.
        allowed: All values there are, empty if they cannot be counted up.
        low: Smallest number, None without a limit.
        high: Largest number, None without a limit.
        grammar: What text or structure must look like, in sentences, or None.
        schema: The same as a JSON schema; empty for a Python object.
    """

    types: str
    allowed: Tuple[Any, ...]
    low: Optional[int]
    high: Optional[int]
    grammar: Optional[str]
    schema: Dict[str, Any]

    @property
    def words(self) -> str:
        """Allowed values, or types and range, on one line."""
        if self.allowed:
            return ", ".join(repr(value) for value in self.allowed)
        if self.low is None or self.high is None:
            return self.types
        return f"{self.types}, {self.low} to {self.high}"


def kind_of(annotation: Any, schema: Dict[str, Any]) -> Kind:
    """Describes the values of an option from its Python type and its JSON schema."""
    const = [schema["const"]] if "const" in schema else []
    grammar = _grammar_of(annotation)
    return Kind(
        types=_types(schema, grammar),
        allowed=tuple(schema.get("enum", const)),
        low=schema.get("minimum"),
        high=schema.get("maximum"),
        grammar=_prose(grammar),
        schema=schema,
    )


def value_schema(root: Mapping[str, Any], model: Type[BaseModel], path: str) -> Dict[str, Any]:
    """The JSON schema of one option's value, without the null that stands for "not said".

    Args:
        root: What ``model.model_json_schema()`` returns.
        model: The config class.
        path: The option, for example ``dump_config.dump_path``.
    """
    properties = root["properties"]
    *containers, leaf = path.split(".")
    for name in containers:
        part = part_of(model.model_fields[name].annotation)
        assert part is not None
        model, properties = part, root["$defs"][part.__name__]["properties"]
    found: List[Dict[str, Any]] = [each for each in properties[leaf]["anyOf"] if each != _NULL]
    return found[0] if len(found) == 1 else {"anyOf": found}


def listed(words: List[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _types(schema: Mapping[str, Any], grammar: Optional[Callable[..., Any]]) -> str:
    words = getattr(grammar, "words", None)  # of what is more than a function
    if words:
        return str(words)
    if grammar is not None and grammar.__name__ == "path_text":
        return "path"
    if not schema:
        return "Python object"
    types = [_WORDS[each["type"]] for each in schema.get("anyOf", [schema]) if "type" in each]
    if "const" in schema:
        types = [type(schema["const"]).__name__]
    return listed(list(dict.fromkeys(types)))


def _grammar_of(annotation: Any) -> Optional[Callable[..., Any]]:
    """The function that reads an option's text; options that are no text have none."""
    for member in get_args(annotation):
        base, *metadata = get_args(member) or (member,)
        for found in metadata:
            if base in (str, Any) and isinstance(found, BeforeValidator):
                return found.func
    return None


def _prose(grammar: Optional[Callable[..., Any]]) -> Optional[str]:
    """The docstring up to its sections, as one paragraph; None without docstrings (-OO)."""
    text = inspect.getdoc(grammar) if grammar is not None else None
    if not text:
        return None
    return " ".join(text.split("\nRaises:")[0].replace("``", "").split())

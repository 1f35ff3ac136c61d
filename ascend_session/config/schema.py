"""The JSON schema of configuration files, for editors: completion, hover texts, wrong values.

It says less than `AscendConfig.from_file` checks: rules between options are not in it.
"""

from typing import Any, Dict, List, Optional, Type

from pydantic import BaseModel

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.catalogue import references
from ascend_session.config.option import part_of
from ascend_session.config.reference import SCOPES, OptionReference

__all__ = ["json_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Dict[str, Any]:
    """The schema (JSON Schema 2020-12) of what `AscendConfig.from_file` reads.

    Options whose values are Python objects are left out. Nothing has a default: what a file does
    not say stays unset. What is unset is left out, so null is no value here.
    """
    by_path = {option.path: option for option in references() if option.write_file is not None}
    parts: Dict[str, Any] = {}
    properties = _properties(AscendConfig, "", by_path, parts)
    return {
        "$schema": _DIALECT,
        "title": "AscendConfig",
        "description": "Options of the Ascend adapter, as AscendConfig.from_file reads them.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": parts,
    }


def _properties(
    model: Type[BaseModel], prefix: str, by_path: Dict[str, OptionReference], parts: Dict[str, Any]
) -> Dict[str, Any]:
    """The properties of a config class; the parts inside it are added to ``parts``."""
    found: Dict[str, Any] = {}
    for name, info in model.model_fields.items():
        path, part = prefix + name, part_of(info.annotation)
        if part is not None:
            inside = _properties(part, f"{path}.", by_path, parts)
            parts[part.__name__] = _object(inside)
            found[name] = {"$ref": f"#/$defs/{part.__name__}", "description": info.description}
        elif path in by_path:
            found[name] = _property(by_path[path])
    return found


def _object(properties: Dict[str, Any]) -> Dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _property(option: OptionReference) -> Dict[str, Any]:
    schema = {**option.schema, "description": " ".join(_sentences(option))}
    return {**schema, "deprecated": True} if option.deprecated else schema


def _sentences(option: OptionReference) -> List[str]:
    """What an editor shows beside the option."""
    facts = [
        option.doc,
        _sentence("In {}.", option.unit),
        _sentence("Default: {}.", option.default),
        option.grammar,
        _sentence("Applies to: {}.", option.applies_to),
        _sentence("Use {} instead.", option.use),
        f"Scope {option.scope}: {SCOPES[option.scope]}.",
    ]
    return [fact for fact in facts if fact is not None]


def _sentence(form: str, fact: Optional[Any]) -> Optional[str]:
    return None if fact is None else form.format(fact)

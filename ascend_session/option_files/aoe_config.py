"""aoe_config_file: which operators AOE tunes, and how thoroughly.

The parser is in a closed library, so only the documented format is known: strict JSON with four
keys. Source: hicann/tensorflow, docs, apiref, AOE; guides/facts/option_files.md#aoe_config_file.
"""

import functools
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple

from ascend_session.jsonfile import JsonMember
from ascend_session.option_files.base import OptionFile
from ascend_session.option_files.source_file import SourceFile
from ascend_session.text import is_writable

_NAMES, _TYPES = "tune_ops_name", "tune_ops_type"
_LEVEL, _FEATURE = "tune_optimization_level", "feature"
_LEVELS = ("O1", "O2")
_MODE_OF_FEATURE = {"deeper_opat": "2", "nonhomo_split": "1"}


@dataclass(frozen=True, repr=False)
class AoeConfigFile(OptionFile):
    """What AOE tunes, for ``aoe_config_file``; frozen.

    Attributes:
        tune_ops_name: Full names of operators, as they are after graph compilation.
        tune_ops_type: Types of operators; fused operators that contain one are tuned too. With
            names and types, operators that match either are tuned.
        tune_optimization_level: "O1" for high performance, "O2" (AOE's default) for normal.
        feature: "deeper_opat" (with aoe_mode 2) or "nonhomo_split" (with aoe_mode 1).

    Raises:
        ConfigError: For values that are not in the manual.
    """

    tune_ops_name: Tuple[str, ...] = ()
    tune_ops_type: Tuple[str, ...] = ()
    tune_optimization_level: Optional[str] = None
    feature: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "aoe_config_file"
    NAME: ClassVar[str] = "tuning_config.cfg"
    WHAT: ClassVar[str] = "a file of operators to tune"
    READER: ClassVar[str] = "AOE"

    def __post_init__(self) -> None:
        for field in (_NAMES, _TYPES, _FEATURE):
            self._freeze_words(field, "words", functools.partial(_check_word, field))
        level = self.tune_optimization_level
        if level is not None and level not in _LEVELS:
            raise self._unusable(f"{_LEVEL} is O1 or O2, not {level!r}.")

    def against(self, aoe_mode: str) -> Tuple[str, ...]:
        """List the features that do not fit a mode of AOE (``"1"``, ``"2"``), in sentences."""
        return tuple(
            f"feature {feature} needs aoe_mode {_MODE_OF_FEATURE[feature]}, not {aoe_mode}."
            for feature in self.feature
            if _MODE_OF_FEATURE[feature] != aoe_mode
        )

    def text(self) -> str:
        """Format strict JSON, with the fields that are set."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        fields: Dict[str, Any] = {}
        node = source.parse_json()
        for member in source.list_members(node, "") if node is not None else ():
            if member.key in (_NAMES, _TYPES, _FEATURE):
                fields[member.key] = _read_words(source, member)
            elif member.key == _LEVEL:
                if member.node.value not in _LEVELS:
                    source.refuse(member.node.at, f"{_LEVEL} is O1 or O2.")
                fields[_LEVEL] = member.node.value
            else:
                hint = f"The manual has {_NAMES}, {_TYPES}, {_LEVEL} and {_FEATURE}."
                message = f"The manual has no key {member.key!r}; its effect is unknown."
                source.skip(member.at, message, hint)
        return fields


def _read_words(source: SourceFile, member: JsonMember) -> Tuple[str, ...]:
    items = source.list_texts(member.node, member.key, f"An item of {member.key}")
    for item in items:
        fault = _find_fault(member.key, item.value)
        if fault:
            source.refuse(item.at, fault)
    return tuple(item.value for item in items)


def _find_fault(field: str, word: str) -> str:
    """Return why a word is invalid, as a sentence; empty if it is valid."""
    if field == _FEATURE and word not in _MODE_OF_FEATURE:
        return f"{_FEATURE} is {' or '.join(_MODE_OF_FEATURE)}, not {word!r}."
    is_word = bool(word) and is_writable(word, strict=True)
    return "" if is_word else f"{field}: {word!r} is not the name of an operator."


def _check_word(field: str, word: str) -> None:
    fault = _find_fault(field, word)
    if fault:
        raise AoeConfigFile._unusable(fault)

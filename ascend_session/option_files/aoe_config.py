"""aoe_config_file: which operators AOE tunes, and how hard.

Source: hicann/tensorflow, docs, apiref, AOE; options notes c. The parser is in a closed library, so
that the documented form is what is known: strict JSON with four keys.
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Optional, Tuple

from ascend_session.option_files.base import OptionFile, unusable
from ascend_session.option_files.json_text import Member, Reader, kind_of
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import Kind, Source, is_writable

__all__ = ["AoeConfigFile"]

_NAMES, _TYPES = "tune_ops_name", "tune_ops_type"
_LEVEL, _FEATURE = "tune_optimization_level", "feature"
_LEVELS = ("O1", "O2")
_MODE_OF = {"deeper_opat": "2", "nonhomo_split": "1"}


@dataclass(frozen=True, repr=False)
class AoeConfigFile(OptionFile):
    """What AOE tunes, for ``aoe_config_file``; frozen.

    Attributes:
        tune_ops_name: Names of operators as they are after graph compilation, whole.
        tune_ops_type: Types of operators; a fused operator that contains one is tuned too. With
            names and types, what either means is tuned.
        tune_optimization_level: "O1" for high performance, "O2" (AOE's default) for normal.
        feature: "deeper_opat" (with aoe_mode 2) or "nonhomo_split" (with aoe_mode 1).

    Raises:
        ConfigError: For values that the manual does not have.
    """

    tune_ops_name: Tuple[str, ...] = ()
    tune_ops_type: Tuple[str, ...] = ()
    tune_optimization_level: Optional[str] = None
    feature: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "aoe_config_file"
    NAME: ClassVar[str] = "tuning_config.cfg"
    KIND: ClassVar[Kind] = Kind("a file of operators to tune", "AOE")

    def __post_init__(self) -> None:
        for field in (_NAMES, _TYPES, _FEATURE):
            given = getattr(self, field)
            if isinstance(given, (str, bytes)) or not all(_is_word(one) for one in given):
                raise unusable(self.OPTION, f"{field} is a list of text, not {given!r}.")
            object.__setattr__(self, field, tuple(dict.fromkeys(given)))
        level = self.tune_optimization_level
        if level is not None and level not in _LEVELS:
            raise unusable(self.OPTION, f"{_LEVEL} is O1 or O2, not {level!r}.")
        for feature in self.feature:
            if feature not in _MODE_OF:
                known = " or ".join(_MODE_OF)
                raise unusable(self.OPTION, f"{_FEATURE} is {known}, not {feature!r}.")

    def against(self, aoe_mode: str) -> Tuple[str, ...]:
        """What does not go with a mode of AOE, in sentences."""
        return tuple(
            f"feature {feature} needs aoe_mode {_MODE_OF[feature]}, not {aoe_mode}."
            for feature in self.feature
            if _MODE_OF[feature] != aoe_mode
        )

    def text(self) -> str:
        """Strict JSON, only what is said."""
        fields = (_NAMES, _TYPES, _LEVEL, _FEATURE)
        said = {field: getattr(self, field) for field in fields if getattr(self, field)}
        return json.dumps(said, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        reader = Reader(source, findings, fix)
        given: Dict[str, Any] = {}
        node = reader.value()
        if node is not None and not isinstance(node.value, tuple):
            place = reader.place(node.at)
            findings.refuse(place, f"The top level is an object, not {kind_of(node)}.")
        elif node is not None:
            for member in reader.members(node).values():
                _take(reader, member, findings, given, fix)
        return lambda: cls(**given)


def _take(
    reader: Reader, member: Member, findings: FileFindings, given: Dict[str, Any], fix: bool
) -> None:
    key, node = member.key, member.node
    place = reader.place(node.at)
    if key in (_NAMES, _TYPES, _FEATURE):
        if not isinstance(node.value, list):
            findings.refuse(place, f"{key} is an array, not {kind_of(node)}.")
            return
        words: List[str] = []
        for one in node.value:
            if not _is_word(one.value) or (key == _FEATURE and one.value not in _MODE_OF):
                known = f"{' or '.join(_MODE_OF)}" if key == _FEATURE else "text"
                findings.refuse(reader.place(one.at), f"{known} belongs into {key}.")
            words.append(one.value)
        given[key] = tuple(words)
    elif key == _LEVEL:
        if node.value not in _LEVELS:
            findings.refuse(place, f"{key} is O1 or O2.")
        given[key] = node.value
    else:
        hint = f"The manual has {_NAMES}, {_TYPES}, {_LEVEL} and {_FEATURE}."
        message = f"The manual has no key {key!r}; what AOE makes of it is not known."
        findings.skip(reader.place(member.at), message, hint)
        if fix:
            message = f"{message} A copy would be without it, and is not made."
            findings.refuse(reader.place(member.at), message, hint)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value) and is_writable(value, strict=True)

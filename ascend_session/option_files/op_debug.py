"""op_debug_config: what the operator compiler adds for debugging, and for which operators.

GE fails only if the file is missing: it reports an unusable line and goes on. If that is the line
of the items (SetOpdebugConfig), the line itself takes the place of the items, and without a list
(IsOpDebugListOp) it is passed on for all operators.

Source: hicann/ge, op_debug_config_parser.cc; guides/facts/option_files.md#op_debug_config.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Tuple

from ascend_session.findings import Place
from ascend_session.option_files.base import OptionFile
from ascend_session.option_files.source_file import SourceFile, trim
from ascend_session.text import shorten

# Items that GE knows; dump_bin is in no manual
DEBUG_ITEMS = ("oom", "dump_cce", "dump_loc", "ccec_O0", "ccec_g", "check_flag", "dump_bin")
_CONFIG, _LIST = "op_debug_config", "op_debug_list"


@dataclass(frozen=True, repr=False)
class OpDebugConfig(OptionFile):
    """Debugging of operators, for ``op_debug_config``; frozen.

    Attributes:
        items: Some of `DEBUG_ITEMS`; GE passes on other words unchanged.
        names: Names of operators. Without names and types all operators are debugged.
        types: Types of operators.

    Raises:
        ConfigError: For a word that cannot be written in a line, and for names or types without
            items, which GE ignores.
    """

    items: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    types: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "op_debug_config"
    NAME: ClassVar[str] = "op_debug.cfg"
    WHAT: ClassVar[str] = "a file of debug items"

    def __post_init__(self) -> None:
        for field in ("items", "names", "types"):
            self._freeze_words(field, "words", functools.partial(_check_word, field))
        if (self.names or self.types) and not self.items:
            raise self._unusable(f"GE ignores {_LIST} without {_CONFIG}.", "Give items.")

    def text(self) -> str:
        """Format one or two lines."""
        listed = [*self.names, *(f"OpType::{name}" for name in self.types)]
        lines = [f"{_CONFIG}={','.join(self.items)}"] if self.items else []
        lines += [f"{_LIST}={','.join(listed)}"] if listed else []
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        lines = _find_lines(source)
        fields: Dict[str, Any] = {}
        is_usable = False
        if _CONFIG in lines:
            fields["items"], is_usable = _read_items(source, *lines[_CONFIG])
        if _LIST in lines and is_usable:
            fields["names"], fields["types"] = _read_list(source, *lines[_LIST])
        elif _LIST in lines:
            message = f"GE ignores {_LIST}, because there is no usable {_CONFIG}."
            source.skip(lines[_LIST][0], message)
        return fields


def _find_lines(source: SourceFile) -> Dict[str, Tuple[Place, str]]:
    """Find the two lines that GE looks for; of equal ones the last counts."""
    lines: Dict[str, Tuple[Place, str]] = {}
    for place, line in source.lines():
        line = trim(line)
        if not line or line.startswith("#"):
            continue
        key = next((key for key in (_CONFIG, _LIST) if key in line), None)
        if key is None:
            source.skip(place, f"GE skips this line: it has neither {_CONFIG} nor {_LIST}.")
            continue
        if trim(line.partition("=")[0]) != key:
            hint = f"Write {key}=..., or # in front."
            source.skip(place, f"GE reads this line as {key}, because the word occurs in it.", hint)
        if key in lines:
            source.skip(lines[key][0], f"Only the last line for {key} counts, line {place.line}.")
        lines[key] = (place, line)
    return lines


def _read_items(source: SourceFile, place: Place, line: str) -> Tuple[List[str], bool]:
    """Read the items; also return whether the line is usable and has any."""
    missing = _find_missing(line)
    if missing:
        source.skip(
            place,
            f"GE reports an error for this line ({missing}), and passes the whole line on as an "
            "item for all operators.",
            "Remove the line, or name items.",
        )
        return _split(line), False
    items = _split(line.partition("=")[2])
    for item in items:
        if item not in DEBUG_ITEMS:
            message = f"{shorten(item, 40)!r} is not a known item; GE passes it on unchecked."
            source.skip(place, message, f"Known are {', '.join(DEBUG_ITEMS)}.")
    if not items:
        source.skip(place, f"{_CONFIG} names no item, so that nothing is debugged.", "Name some.")
    if {"oom", "ccec_O0"} <= set(items):
        message = "oom and ccec_O0 exclude each other: operators fail on the device."
        source.skip(place, message, "Take one of them out.")
    return items, bool(items)


def _read_list(source: SourceFile, place: Place, line: str) -> Tuple[List[str], List[str]]:
    """Read names and types; in a word with '::', the type comes after that."""
    missing = _find_missing(line)
    if missing:
        message = f"GE reports an error for this line ({missing}), and continues without it."
        source.skip(place, message)
        return [], []
    words = _split(line.partition("=")[2])
    if not words:
        source.skip(place, f"{_LIST} names no operator, so that GE debugs all.", "Name some.")
    names = [word for word in words if "::" not in word]
    types = [word.partition("::")[2] for word in words if "::" in word]
    wrong = [op_type for op_type in types if trim(op_type) != op_type or not op_type]
    is_idle = bool(wrong) and not names and len(wrong) == len(types)
    for op_type in dict.fromkeys(wrong):
        effect = ", so that it debugs none" if is_idle else ""
        message = f"GE compares types with {op_type!r}, which no operator has{effect}."
        source.skip(place, message, "Write OpType::TYPE, without a blank.")
    return names, types


def _find_missing(line: str) -> str:
    _, equals, value = line.partition("=")
    if not equals:
        return "it has no '='"
    return "" if value else "nothing follows '='"


def _split(words: str) -> List[str]:
    return [trim(word) for word in words.split(",") if trim(word)]


def _check_word(field: str, word: str) -> None:
    read = f"::{word}" if field == "types" else word  # what GE trims
    if not read or trim(read) != read or set(word) & set(",\n"):
        message = f"{field}: {word!r} cannot be written: it is one word of text without ','."
        raise OpDebugConfig._unusable(message)
    OpDebugConfig._check_writable(f"{field}: {word!r}", word)
    if field == "names" and "::" in word:
        raise OpDebugConfig._unusable(f"names: {word!r} is a type for GE.", "Give it in types.")
    if field != "items" and _CONFIG in word:
        raise OpDebugConfig._unusable(f"{field}: GE would take the line of {word!r} for {_CONFIG}.")

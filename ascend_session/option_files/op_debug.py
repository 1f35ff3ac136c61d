"""op_debug_config: what the operator compiler adds for debugging, and for which operators.

Source: hicann/ge, op_debug_config_parser.cc; options notes c and a39. GE fails for a missing file
only: a line that it cannot use it reports, and goes on. If that is the line of the items
(SetOpdebugConfig), the line itself stays where the items should be, and without a list
(IsOpDebugListOp) it is passed on for all operators.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Tuple

from ascend_session.option_files.base import OptionFile, check_text_of, unusable
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import BOM, Kind, Source, lines_of, shortened, trimmed

__all__ = ["DEBUG_ITEMS", "OpDebugConfig"]

# What may be asked for; dump_bin is known to GE itself and to no manual
DEBUG_ITEMS = ("oom", "dump_cce", "dump_loc", "ccec_O0", "ccec_g", "check_flag", "dump_bin")
_CONFIG, _LIST = "op_debug_config", "op_debug_list"


@dataclass(frozen=True, repr=False)
class OpDebugConfig(OptionFile):
    """What is added to operators, for ``op_debug_config``; frozen.

    Attributes:
        items: Some of `DEBUG_ITEMS`; other words are passed on by GE as they are.
        names: Names of the only operators that are meant; all are if there is no name and no type.
        types: The same, by type.

    Raises:
        ConfigError: For what no line can hold, and for names or types without items, which GE does
            not look at.
    """

    items: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    types: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "op_debug_config"
    NAME: ClassVar[str] = "op_debug.cfg"
    KIND: ClassVar[Kind] = Kind("a file of debug items")

    def __post_init__(self) -> None:
        for field in ("items", "names", "types"):
            given = getattr(self, field)
            if isinstance(given, (str, bytes)):
                raise unusable(self.OPTION, f"{field} is a list of words, not {given!r}.")
            for word in given:
                _check_word(field, word)
            object.__setattr__(self, field, tuple(dict.fromkeys(given)))
        if (self.names or self.types) and not self.items:
            raise unusable(self.OPTION, f"GE looks at {_LIST} with {_CONFIG} only.", "Give items.")

    def covers(self, op_type: str, name: str) -> bool:
        """Whether an operator is compiled with the items."""
        everything = not self.names and not self.types
        return bool(self.items) and (everything or name in self.names or op_type in self.types)

    def text(self) -> str:
        """One or two lines."""
        listed = [*self.names, *(f"OpType::{name}" for name in self.types)]
        lines = [f"{_CONFIG}={','.join(self.items)}"] if self.items else []
        lines += [f"{_LIST}={','.join(listed)}"] if listed else []
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        found: Dict[str, Tuple[int, str]] = {}
        for number, line in enumerate(lines_of(source.text), 1):
            if fix:
                line = (line[1:] if line.startswith(BOM) else line).partition("#")[0]
            _take(trimmed(line), number, findings, found)
        items, usable = _items(found, findings, fix)
        names, types = _listed(found, findings) if usable and items else ([], [])
        if not (usable and items) and _LIST in found:
            message = f"GE does not look at {_LIST}, as there is no usable {_CONFIG}."
            findings.skip((found[_LIST][0], 1), message)
        if usable:
            _remark(items, found, findings)
        return lambda: cls(tuple(items), tuple(names), tuple(types))


def _take(
    line: str, number: int, findings: FileFindings, found: Dict[str, Tuple[int, str]]
) -> None:
    """Keeps the line if it is one of the two that GE looks for; the last of each counts."""
    if not line or line.startswith("#"):
        return
    place = (number, 1)
    key = next((key for key in (_CONFIG, _LIST) if key in line), None)
    if key is None:
        findings.skip(place, f"GE skips this line: it has neither {_CONFIG} nor {_LIST}.")
        return
    said = trimmed(line.partition("=")[0])
    if said != key:
        hint = f"Write {key}=..., or # in front."
        findings.skip(place, f"GE takes this line for {key}: the word occurs in it.", hint)
    if key in found:
        message = f"Only line {number} counts for {key}, the last one."
        findings.skip((found[key][0], 1), message)
    found[key] = (number, line)


def _items(
    found: Dict[str, Tuple[int, str]], findings: FileFindings, fix: bool
) -> Tuple[List[str], bool]:
    """The items, and whether they are what the line means to say."""
    number, line = found.get(_CONFIG, (0, ""))
    if not number:
        return [], False
    missing = _missing(line)
    if not missing:
        return _split(line.partition("=")[2]), True
    findings.skip(
        (number, 1),
        f"GE reports an error for this line ({missing}), and passes on the line itself as an item, "
        "for all operators.",
        "Take the line out, or name items.",
    )
    return ([], False) if fix else (_split(line), False)


def _listed(
    found: Dict[str, Tuple[int, str]], findings: FileFindings
) -> Tuple[List[str], List[str]]:
    """Names and types; a word with '::' in it is a type, and stands behind that."""
    number, line = found.get(_LIST, (0, ""))
    missing = _missing(line) if number else ""
    if missing:
        message = f"GE reports an error for this line ({missing}), and goes on without it."
        findings.skip((number, 1), message)
        return [], []
    words = _split(line.partition("=")[2])
    types = [word.partition("::")[2] for word in words if "::" in word]
    return [word for word in words if "::" not in word], [kind for kind in types if kind]


def _missing(line: str) -> str:
    _, equals, value = line.partition("=")
    if not equals:
        return "it has no '='"
    return "" if value else "nothing stands behind '='"


def _split(words: str) -> List[str]:
    return [trimmed(word) for word in words.split(",") if trimmed(word)]


def _remark(items: List[str], found: Dict[str, Tuple[int, str]], findings: FileFindings) -> None:
    place = (found.get(_CONFIG, (1, ""))[0], 1)
    for item in items:
        if item not in DEBUG_ITEMS:
            message = f"{shortened(item, 40)!r} is no known item; GE passes it on unchecked."
            findings.skip(place, message, f"Known are {', '.join(DEBUG_ITEMS)}.")
    if {"oom", "ccec_O0"} <= set(items):
        message = "oom and ccec_O0 exclude each other: operators fail on the device."
        findings.skip(place, message, "Take one of them out.")


def _check_word(field: str, word: object) -> None:
    option = OpDebugConfig.OPTION
    if not isinstance(word, str) or not word or trimmed(word) != word or set(word) & set(",\n"):
        raise unusable(
            option, f"{field}: {word!r} cannot be written: it is one word of text without ','."
        )
    check_text_of(option, f"{field}: {word!r}", word)
    if field == "names" and "::" in word:
        raise unusable(option, f"names: {word!r} is a type for GE.", "Give it in types.")
    if field != "items" and _CONFIG in word:
        raise unusable(option, f"{field}: GE would take the line of {word!r} for {_CONFIG}.")

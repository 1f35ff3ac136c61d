"""op_cache.ini: how much room the cache of compiled operators may take.

It lies in op_compiler_cache_dir and is never an error: what is wrong in it is not used.

Source: hicann/ge, the operator compiler's te_cache_space_manager (LoadIniFile,
GetCacheInitFileCfg, UpdateOpCacheSizeCfg); guides/facts/option_files.md#op_cacheini.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Optional, Tuple

from ascend_session.findings import Place
from ascend_session.option_files.base import OptionFile
from ascend_session.option_files.source import SourceFile, encode, trim
from ascend_session.text import shorten

_SECTION = "op_compiler_cache"
_SIZE, _RATIO = "max_op_cache_size", "remain_cache_size_ratio"
_LIMITS = (_SIZE, _RATIO)
_VERSIONS = ("adk_version", "ops_version")
_LARGEST_SIZE = 2**31 - 1
_NUMBER = re.compile(r"[+-]?[0-9]+")


_Entry = Tuple[Place, str]  # where it stands, and its value


@dataclass(frozen=True, repr=False)
class OpCache(OptionFile):
    """Limits of the operator cache; frozen.

    Attributes:
        max_op_cache_size: MB for one kind of processor, or -1: nothing is ever thrown away.
        remain_cache_size_ratio: Percent that stay when room runs out, 1 to 100.
        adk_version: The version of the compiler that the cache is of; the compiler writes it.
        ops_version: The version of the operators, likewise.

    Raises:
        ConfigError: For a value that the compiler would not use.
    """

    max_op_cache_size: Optional[int] = None
    remain_cache_size_ratio: Optional[int] = None
    adk_version: Optional[str] = None
    ops_version: Optional[str] = None

    OPTION: ClassVar[str] = "op_compiler_cache_dir"
    NAME: ClassVar[str] = "op_cache.ini"
    WHAT: ClassVar[str] = "a file of cache limits"
    READER: ClassVar[str] = "the operator compiler"

    def __post_init__(self) -> None:
        for field in _LIMITS:
            value = getattr(self, field)
            if value is not None and (type(value) is not int or not _is_legal(field, value)):
                raise self._unusable(f"{field}={value!r} is not used: {_range_of(field)}.")
        for field in _VERSIONS:
            value = getattr(self, field)
            if value is None:
                continue
            if not isinstance(value, str) or not value or trim(value) != value or "\n" in value:
                raise self._unusable(f"{field}: {value!r} is not one line of text.")
            self._check_writable(f"{field}: {value!r}", value)

    @property
    def used(self) -> bool:
        """Whether the limits count: all four values are needed."""
        return None not in [getattr(self, field) for field in (*_LIMITS, *_VERSIONS)]

    def text(self) -> str:
        """Write the section, and a line for each value that is set."""
        values = ((field, getattr(self, field)) for field in (*_VERSIONS, *_LIMITS))
        lines = [f"{field}={value}\n" for field, value in values if value is not None]
        return "".join([f"[{_SECTION}]\n", *lines])

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        sections = _read_sections(source)
        entries = sections.get(_SECTION, {})
        earlier = sorted(name for name in sections if encode(name) < encode(_SECTION))
        if not entries:
            message = f"The section [{_SECTION}] has no entries, so nothing is used."
            source.skip(Place(1, 1), message)
        elif earlier:
            first = shorten(earlier[0])
            message = f"The section [{_SECTION}] is not used: the compiler reads [{first}] first."
            source.skip(Place(1, 1), message, f"Remove the section [{first}].")
        limits = {f: _read_limit(source, f, entries[f]) for f in _LIMITS if f in entries}
        versions = {field: entries[field][1] for field in _VERSIONS if field in entries}
        missing = [field for field in _LIMITS if field not in entries]
        if entries and missing:
            message = f"{_are(missing)} missing: the compiler uses the limits only together."
            source.skip(Place(1, 1), message)
        missing = [field for field in _VERSIONS if field not in entries]
        if (limits or versions) and missing:
            source.skip(
                Place(1, 1),
                f"{_are(missing)} missing: the compiler then uses no limit of the file, although "
                "the manual's sample has none.",
                "Let the compiler make the file at its first run, and change the limits in that.",
            )
        return {} if earlier and not source.fix else {**limits, **versions}


def _read_sections(source: SourceFile) -> Dict[str, Dict[str, _Entry]]:
    """Read the entries of each section that has any.

    Of two equal sections the first one counts, of two equal entries the last.
    """
    sections: Dict[str, Dict[str, _Entry]] = {}
    section = ""
    entries: Dict[str, _Entry] = {}
    for place, line in source.lines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if section and entries:
                sections.setdefault(section, entries)
                entries = {}
            end = line.rfind("]")
            section = trim(line[1:end]) if end >= 0 else section
            if end < 0:
                source.skip(place, "This section is not used: it has no ']'.")
            elif section in sections:
                reason = f"[{shorten(section)}] occurs twice, and the first one counts"
                source.skip(place, f"This section is not used: {reason}.")
            continue
        key, equals, value = line.partition("=")
        key, value = trim(key), trim(value)
        if not equals or not key or not value:
            if trim(line):
                message = "The compiler skips this line: it is not KEY=VALUE."
                source.skip(place, message)
            continue
        if key not in (*_LIMITS, *_VERSIONS):
            source.skip(place, f"No limit is called {shorten(key)!r}.")
        entries[key] = (place, value)
    if section and entries:
        sections.setdefault(section, entries)
    return sections


def _read_limit(source: SourceFile, field: str, entry: _Entry) -> Optional[int]:
    """Read the number at the beginning of the text, which is how C++ does it."""
    place, text = entry
    digits = _NUMBER.match(text)
    value = int(digits.group()) if digits and len(digits.group()) < 20 else None
    if digits is None or value is None or not _is_legal(field, value):
        message = f"{field}={shorten(text)} is not used: {_range_of(field)}."
        source.skip(place, f"{message} Then the other limit is not used either.")
        return None
    if digits.end() < len(text):
        rest = shorten(text[digits.end() :])
        source.skip(place, f"Of {field}, the compiler reads {value} only, without {rest!r}.")
    return value


def _is_legal(field: str, value: int) -> bool:
    return value == -1 or 1 <= value <= _LARGEST_SIZE if field == _SIZE else 1 <= value <= 100


def _range_of(field: str) -> str:
    if field == _SIZE:
        return f"-1, or 1 to {_LARGEST_SIZE} MB, may stand"
    return "1 to 100 may stand"


def _are(fields: List[str]) -> str:
    return f"{' and '.join(fields)} {'is' if len(fields) == 1 else 'are'}"

"""op_cache.ini: how much room the cache of compiled operators may take.

Source: hicann/ge, the operator compiler's te_cache_space_manager (LoadIniFile,
GetCacheInitFileCfg, UpdateOpCacheSizeCfg); options notes c. It lies in op_compiler_cache_dir and is
never an error: what is wrong in it is not used.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, NamedTuple, Optional

from ascend_session.option_files.base import OptionFile, check_text_of, unusable
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import (
    BOM,
    Kind,
    Source,
    encoded,
    lines_of,
    shortened,
    trimmed,
)

__all__ = ["OpCache"]

_SECTION = "op_compiler_cache"
_SIZE, _RATIO = "max_op_cache_size", "remain_cache_size_ratio"
_VERSIONS = ("adk_version", "ops_version")
_MOST = 2**31 - 1
_NUMBER = re.compile(r"[+-]?[0-9]+")


class _Entry(NamedTuple):
    number: int
    value: str


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
    KIND: ClassVar[Kind] = Kind("a file of cache limits", "the operator compiler")

    def __post_init__(self) -> None:
        for field in (_SIZE, _RATIO):
            value = getattr(self, field)
            if value is not None and (type(value) is not int or not _legal(field, value)):
                raise unusable(self.OPTION, f"{field}={value!r} is not used: {_range(field)}.")
        for field in _VERSIONS:
            value = getattr(self, field)
            if value is not None:
                _check_version(field, value)

    @property
    def used(self) -> bool:
        """Whether the limits count: all four values are needed."""
        return None not in (
            self.max_op_cache_size,
            self.remain_cache_size_ratio,
            self.adk_version,
            self.ops_version,
        )

    def text(self) -> str:
        """The section, and a line for each value that is there."""
        values = ((field, getattr(self, field)) for field in (*_VERSIONS, _SIZE, _RATIO))
        lines = [f"{field}={value}\n" for field, value in values if value is not None]
        return "".join([f"[{_SECTION}]\n", *lines])

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        sections = _sections(source.text, findings, fix)
        entries = sections.get(_SECTION, {})
        earlier = sorted(name for name in sections if encoded(name) < encoded(_SECTION))
        if not entries:
            findings.skip((1, 1), f"There is nothing in a section [{_SECTION}]: nothing is used.")
        elif earlier:
            message = f"Nothing here is used: the compiler meets [{shortened(earlier[0])}] first."
            findings.skip((1, 1), message, "Take that section out.")
        given: Dict[str, Any] = {}
        for field in (_SIZE, _RATIO):
            if field in entries:
                given[field] = _number(field, entries[field], findings)
        for field in _VERSIONS:
            if field in entries:
                given[field] = entries[field].value
        _remark(entries, given, findings)
        if earlier and not fix:
            given = {}
        return lambda: cls(**given)


def _sections(text: str, findings: FileFindings, fix: bool) -> Dict[str, Dict[str, _Entry]]:
    """Sections and their entries; of two equal sections the first counts, of entries the last."""
    found: Dict[str, Dict[str, _Entry]] = {}
    section = ""
    entries: Dict[str, _Entry] = {}
    for number, line in enumerate(lines_of(text), 1):
        if fix:
            line = trimmed(line[1:] if line.startswith(BOM) else line)
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if section and entries:
                found.setdefault(section, entries)
                entries = {}
            end = line.rfind("]")
            section = trimmed(line[1:end]) if end >= 0 else section
            if end < 0 or section in found:
                what = (
                    "it has no ']'" if end < 0 else f"[{shortened(section)}] stands there already"
                )
                findings.skip((number, 1), f"This section is not used: {what}.")
            continue
        key, equals, value = line.partition("=")
        if not equals or not trimmed(key) or not trimmed(value):
            if trimmed(line):
                findings.skip((number, 1), "The compiler skips this line: it is no KEY=VALUE.")
            continue
        if trimmed(key) not in (_SIZE, _RATIO, *_VERSIONS):
            findings.skip((number, 1), f"No limit is called {shortened(trimmed(key))!r}.")
        entries[trimmed(key)] = _Entry(number, trimmed(value))
    if section and entries:
        found.setdefault(section, entries)
    return found


def _number(field: str, entry: _Entry, findings: FileFindings) -> Optional[int]:
    """The number at the beginning of the text, which is how C++ reads it."""
    digits = _NUMBER.match(entry.value)
    place = (entry.number, 1)
    value = int(digits.group()) if digits and len(digits.group()) < 20 else None
    if digits is None or value is None or not _legal(field, value):
        message = f"{field}={shortened(entry.value)} is not used: {_range(field)}."
        findings.skip(place, f"{message} Then the other limit is not used either.")
        return None
    if digits.end() < len(entry.value):
        rest = shortened(entry.value[digits.end() :])
        findings.skip(place, f"Of {field}, the compiler reads {value} only, without {rest!r}.")
    return value


def _remark(entries: Dict[str, _Entry], given: Dict[str, Any], findings: FileFindings) -> None:
    missing: List[str] = [field for field in (_SIZE, _RATIO) if field not in entries]
    if entries and missing:
        message = f"{_absent(missing)} missing: the limits are used together only."
        findings.skip((1, 1), message)
    unnamed = [field for field in _VERSIONS if field not in given]
    if given and unnamed:
        findings.skip(
            (1, 1),
            f"{_absent(unnamed)} missing: the compiler then uses no limit of the file, "
            "although the manual's sample has none.",
            "Let the compiler make the file at its first run, and change the limits in that.",
        )


def _legal(field: str, value: int) -> bool:
    return value == -1 or 1 <= value <= _MOST if field == _SIZE else 1 <= value <= 100


def _range(field: str) -> str:
    return f"-1, or 1 to {_MOST} MB, may stand" if field == _SIZE else "1 to 100 may stand"


def _check_version(field: str, value: object) -> None:
    if not isinstance(value, str) or not value or trimmed(value) != value or "\n" in value:
        raise unusable(OpCache.OPTION, f"{field}: {value!r} is no one line of text.")
    check_text_of(OpCache.OPTION, f"{field}: {value!r}", value)


def _absent(fields: List[str]) -> str:
    return f"{' and '.join(fields)} {'is' if len(fields) == 1 else 'are'}"

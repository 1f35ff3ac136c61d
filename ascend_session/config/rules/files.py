"""Host rules about the files that options point to: what stands in them."""

import os
from typing import TYPE_CHECKING, Iterator, Optional, Tuple

from ascend_session.config.entry import Entry
from ascend_session.config.file_store import is_file
from ascend_session.config.rules._rule import Finding, Findings, RuleBook, error, warning
from ascend_session.config.rules.paths import tuning_mode
from ascend_session.errors import ConfigError, UnsupportedError
from ascend_session.option_files.kinds import FILE_OPTIONS, file_type

if TYPE_CHECKING:
    from ascend_session.option_files.base import OptionFile

__all__ = ["RULES"]

RULES = RuleBook()

_AOE = "aoe_config_file"
_UNREAD = "{}: what stands in it is not checked here: {}"
_MOST_TOLD = 5


@RULES.add(*FILE_OPTIONS, source="options_notes c; hicann/ge, config parsers")
def files_say_what_ge_reads(entry: Entry) -> Findings:
    """GE takes the files that options point to, and skips nothing that stands in them."""
    for option, path in _files(entry):
        content, unread = _content(option, path)
        if unread:
            yield warning(option, _UNREAD.format(option, unread))
        if content is not None:
            yield from _findings(option, path, content)


def _files(entry: Entry) -> Iterator[Tuple[str, str]]:
    """The options whose file is there; that it is there is for the rules about paths."""
    for option in FILE_OPTIONS:
        path = entry.get(option)
        if not isinstance(path, str) or (option == _AOE and tuning_mode(entry) is None):
            continue
        if os.path.exists(path) and not os.path.isdir(path):
            yield option, path


def _content(option: str, path: str) -> Tuple[Optional[bytes], str]:
    """The bytes of a file, or why they cannot be had here, although GE may have them."""
    from ascend_session.option_files.source import read_content

    if os.path.realpath(path) == os.devnull:
        return b"", ""  # an empty file to GE, which some of its parsers refuse
    try:
        return read_content(path, file_type(option).KIND), ""
    except ConfigError as unread:
        return None, unread.message


def _findings(option: str, path: str, content: bytes) -> Iterator[Finding]:
    # AOE's parser is in a closed library: what it refuses is not known for certain.
    refusal = warning if option == _AOE else error
    try:
        remarks = file_type(option).check_text(content, path)
    except UnsupportedError as missing:
        yield warning(option, _UNREAD.format(option, missing.message), missing.hint)
        return
    except ConfigError as refused:
        for problem in refused.problems:
            yield refusal(option, f"{option}: {problem.message}", problem.hint)
        return
    for remark in remarks[:_MOST_TOLD]:
        place = f"{path}:{remark.line}:{remark.column}"
        yield warning(option, f"{option}: {place}: {remark.message}", remark.hint)
    if len(remarks) > _MOST_TOLD:
        more = f"{len(remarks) - _MOST_TOLD:,} more such remarks"
        shows = f"ascend-session config check-file {option} {path}"
        yield warning(option, f"{option}: {path} has {more}.", f"`{shows}` shows them.")


@RULES.add(_AOE, "aoe_mode", source="options_notes a41")
def tuning_features_belong_to_a_mode(entry: Entry) -> Findings:
    """The feature deeper_opat needs aoe_mode 2, nonhomo_split needs aoe_mode 1."""
    mode = tuning_mode(entry)
    given = entry.get(_AOE)
    file = _aoe_file(given) if mode is not None else None
    if file is None:
        return
    from ascend_session.option_files.aoe_config import AoeConfigFile

    assert isinstance(file, AoeConfigFile)
    where = f"{given}: " if isinstance(given, str) else ""
    for fault in file.against(mode or ""):
        yield error(_AOE, f"{_AOE}: {where}{fault}")


def _aoe_file(given: object) -> "Optional[OptionFile]":
    if is_file(given):
        return given  # type: ignore[return-value]
    if not isinstance(given, str) or not os.path.isfile(given):
        return None
    try:
        return file_type(_AOE).read(given)
    except ConfigError:
        return None

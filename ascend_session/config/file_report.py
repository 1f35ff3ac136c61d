"""What there is to say about one configuration file: problems and warnings with their lines."""

import os
import re
import warnings
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.checking import findings
from ascend_session.config.documents import read_document
from ascend_session.config.entry import Entry
from ascend_session.config.files import line_of
from ascend_session.config.option import options_by_key
from ascend_session.errors import AscendConfigWarning, ConfigError, Problem

__all__ = ["EntryLine", "FileReport", "Remark", "entry_lines", "report_file"]


@dataclass(frozen=True)
class Remark:
    """One problem or warning.

    Attributes:
        line: Line in the file, counted from 1; None if it is about the file as a whole.
        option: The option it is about, None if it is about the file as a whole.
        message: What was asked and what was found.
        hint: What to write instead, or None.
        source: Where the fact stands, or None.
    """

    line: Optional[int]
    option: Optional[str]
    message: str
    hint: Optional[str] = None
    source: Optional[str] = None


@dataclass(frozen=True)
class FileReport:
    """What a file holds: a configuration, or the problems that refuse it.

    Attributes:
        file: Its name, as it was given.
        config: The configuration; None if it could not be built.
        problems: What refuses it, here or on this host.
        warnings: What is taken but does not do what it says.
    """

    file: str
    config: Optional[AscendConfig]
    problems: Tuple[Remark, ...]
    warnings: Tuple[Remark, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing refuses the file."""
        return not self.problems

    def to_dict(self) -> Dict[str, Any]:
        """The report as JSON can hold it, without the configuration."""
        return {
            "file": self.file,
            "ok": self.ok,
            "problems": [asdict(remark) for remark in self.problems],
            "warnings": [asdict(remark) for remark in self.warnings],
        }


class EntryLine(NamedTuple):
    """One key of a resolved NpuOptimizer entry.

    Attributes:
        key: The vendor's key.
        value: What goes into it: text, a number or a bool.
        field: The protobuf field that the adapter reads: ``s``, ``i`` or ``b``.
        scope: When it reads it, in one word.
    """

    key: str
    value: Any
    field: str
    scope: str


def report_file(name: str, environ: Optional[Mapping[str, str]] = None) -> FileReport:
    """Reads and checks a configuration file; wrong files are reported, never raised.

    Args:
        name: The file, YAML or JSON.
        environ: The environment for the host rules; None leaves them out.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)
            config = AscendConfig.from_file(name)
    except ConfigError as error:
        return FileReport(name, None, tuple(_refusals(name, error)), ())
    lines = _lines_of(name)
    problems: List[Remark] = []
    said: List[Remark] = []
    for refuses, problem in _findings(config, environ):
        remark = Remark(line_of(problem.option, AscendConfig, lines), *problem)
        (problems if refuses else said).append(remark)
    return FileReport(name, config, tuple(problems), tuple(said))


def entry_lines(config: AscendConfig) -> List[EntryLine]:
    """The NpuOptimizer entry that ``config`` resolves to, in the order of definition."""
    known = options_by_key(AscendConfig)
    return [
        EntryLine(key, value, known[key].field or "", known[key].scope or "unread")
        for key, value in config.parameter_map().items()
    ]


def _lines_of(name: str) -> Dict[str, int]:
    """The line of each option; none for a pipe, which has been read and is empty."""
    return read_document(name)[1] if os.path.isfile(name) else {}


def _findings(
    config: AscendConfig, environ: Optional[Mapping[str, str]]
) -> List[Tuple[bool, Problem]]:
    from ascend_session.config.rules import HOST_RULES, RULES

    rules = RULES if environ is None else RULES + HOST_RULES
    found = findings(rules, Entry(config.values(), environ=environ))
    return [(finding.refuses, finding.problem) for finding in found]


def _refusals(name: str, error: ConfigError) -> List[Remark]:
    """The problems of an error from `AscendConfig.from_file`, their place in a number."""
    if not error.problems:
        return [Remark(*_placed(name, error.message, None), hint=error.hint)]
    return [
        Remark(*_placed(name, p.message, p.option), hint=p.hint, source=p.source)
        for p in error.problems
    ]


def _placed(
    name: str, message: str, option: Optional[str]
) -> Tuple[Optional[int], Optional[str], str]:
    """Line, option and message of a message that begins with ``name:line:``."""
    match = re.match(re.escape(name) + "(?::([0-9]+))?: ", message)
    if match is None:
        return None, option, message
    line = int(match.group(1)) if match.group(1) else None
    return line, option, message[match.end() :]

"""Findings: the one record for errors, warnings and notes of all checks."""

from itertools import accumulate
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from ascend_session.spelling import as_message, template_of

ERROR = "error"
"""Severity: a job would fail, hang, or silently do something else."""

WARNING = "warning"
"""Severity: a job may go wrong, or not do what it seems to."""

NOT_CHECKED = "not checked"
"""Severity: the check could not be made."""

INFO = "info"
"""Severity: worth knowing; the screen calls it a note."""

OK = "ok"
"""Severity: checked, without a fault."""

SEVERITIES = (ERROR, WARNING, NOT_CHECKED, INFO, OK)

NO_EFFECT = "none"
"""Effect: the option is accepted and does nothing."""

DIFFERS = "differs"
"""Effect: the job trains otherwise than it seems to."""

HOST = "host"
"""Effect: would end a run on a device, provided that host has the same files."""


class Place(NamedTuple):
    """A place in a file.

    Attributes:
        line: From 1.
        column: From 1, in characters.
        cell: In a notebook, the cell (from 1) in which lines are counted; else None.
        file: The file's name; empty if the context shows it.
        text: The stripped line; empty if not needed.
    """

    line: int
    column: int
    cell: Optional[int] = None
    file: str = ""
    text: str = ""

    def __str__(self) -> str:
        within = f"{self.line}:{self.column}"
        return within if self.cell is None else f"cell {self.cell}:{within}"


_BLOCK = 4096  # characters


class TextPlaces:
    """Converts indices of a text, which may have millions of lines, to lines and columns."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._feeds: List[int] = []  # line feeds before each block

    def locate(self, at: int) -> Place:
        """Return line and column of the character at index ``at``."""
        text = self._text
        if not self._feeds:
            starts = range(0, len(text), _BLOCK)
            counts = (text.count("\n", start, start + _BLOCK) for start in starts)
            self._feeds = [0, *accumulate(counts)]
        block = at // _BLOCK
        line = self._feeds[block] + text.count("\n", block * _BLOCK, at) + 1
        return Place(line, at - text.rfind("\n", 0, at))


class _Fields(NamedTuple):
    severity: str
    message: str
    hint: Optional[str] = None
    rule: str = ""
    option: Optional[str] = None
    place: Union[str, Place, None] = None
    source: Optional[str] = None
    certain: bool = True
    effect: str = ""


class Finding(_Fields):
    """One error, warning or note.

    Attributes:
        severity: ``error``, ``warning``, ``not checked``, ``info`` or ``ok``.
        message: The problem, in full sentences.
        hint: What to do; None if there is nothing to do.
        rule: Name of the check, which stays the same: ``device nodes``, ``unknown-key``.
        option: The option, under the name that the user wrote.
        place: Its place in a file, or in JSON, as in ``server_list[0].device[3]``.
        source: Source of the rule (adapter file, page of the manual).
        certain: False if it depends on something unseen: a branch, another file.
        effect: The effect on the option, if the severity does not show it: ``none``, ``differs``
            or ``host``.
    """

    __slots__ = ()

    def __new__(
        cls,
        severity: str,
        message: str,
        hint: Optional[str] = None,
        rule: str = "",
        option: Optional[str] = None,
        place: Union[str, Place, None] = None,
        source: Optional[str] = None,
        certain: bool = True,
        effect: str = "",
    ) -> "Finding":
        """Convert texts with placeholders to `Message`."""
        message, hint = as_message(message), None if hint is None else as_message(hint)
        return super().__new__(
            cls, severity, message, hint, rule, option, place, source, certain, effect
        )

    @property
    def template(self) -> str:
        """Place, message and hint, with placeholders, to be put into a message."""
        message = template_of(self.message)
        text = f"{self.place}: {message}" if self.place else message
        return text if self.hint is None else f"{text} {template_of(self.hint)}"

    def __str__(self) -> str:
        return str(as_message(self.template))


def errors_of(findings: Iterable[Finding]) -> List[Finding]:
    """Return the errors."""
    return [finding for finding in findings if finding.severity == ERROR]


def remarks_of(findings: Iterable[Finding]) -> List[Finding]:
    """Return the warnings and the checks that could not be made."""
    return [finding for finding in findings if finding.severity in (WARNING, NOT_CHECKED)]


def sort_by_severity(findings: Iterable[Finding]) -> List[Finding]:
    """Sort errors first, then warnings, what was not checked, and the rest."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


_MOST_ALIKE = 10


def limit_repeats(findings: Iterable[Finding]) -> List[Finding]:
    """Keep ten findings of each severity and rule; one more says how many were left out."""
    kept: Dict[Tuple[str, str], List[Finding]] = {}
    hidden: Dict[Tuple[str, str], int] = {}
    for finding in findings:
        key = (finding.severity, finding.rule)
        alike = kept.setdefault(key, [])
        if len(alike) < _MOST_ALIKE:
            alike.append(finding)
        else:
            hidden[key] = hidden.get(key, 0) + 1
    for (severity, rule), count in hidden.items():
        message = f"And {count:,} more like the last one."
        kept[severity, rule].append(Finding(severity, message, rule=rule))
    return [finding for alike in kept.values() for finding in alike]

"""What is wrong, doubtful or worth knowing: one record for it, wherever it was found."""

from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from ascend_session.spelling import as_message, template_of

ERROR = "error"
"""A job would fail, hang, or quietly do something else than it was asked."""

WARNING = "warning"
"""A job may go wrong, or not be what it looks like."""

NOT_CHECKED = "not checked"
"""Nobody could say."""

INFO = "info"
"""Worth knowing, and nothing to do; the screen calls it a note."""

OK = "ok"
"""Looked at, and nothing was found against it; not more than that."""

SEVERITIES = (ERROR, WARNING, NOT_CHECKED, INFO, OK)

NO_EFFECT = "none"
"""An effect: the option does not do what it says."""

HOST = "host"
"""An effect: a device ends the run if its host has the same files."""


class Place(NamedTuple):
    """A place in a file.

    Attributes:
        line: From 1.
        column: From 1, in characters.
        cell: The number of a notebook's cell from 1, in which the line is counted; else None.
        file: The file's name; empty where whoever reads the finding knows it.
        text: The line without blanks around it; empty where nobody needs it.
    """

    line: int
    column: int
    cell: Optional[int] = None
    file: str = ""
    text: str = ""

    def __str__(self) -> str:
        within = f"{self.line}:{self.column}"
        return within if self.cell is None else f"cell {self.cell}:{within}"


_BLOCK_CHARS = 4096


class TextPlaces:
    """The place of each character of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Of each block: how many line feeds stand in front of it, and where the last of them is.
        self._blocks: List[Tuple[int, int]] = []

    def locate(self, at: int) -> Place:
        """Give line and column of the character ``at``, which is counted from 0."""
        if not self._blocks:
            self._count_lines()
        start = at // _BLOCK_CHARS * _BLOCK_CHARS
        lines, last_feed = self._blocks[at // _BLOCK_CHARS]
        lines += self._text.count("\n", start, at)
        last_feed = max(last_feed, self._text.rfind("\n", start, at))
        return Place(lines + 1, at - last_feed)

    def _count_lines(self) -> None:
        lines, last_feed = 0, -1
        for start in range(0, len(self._text) + 1, _BLOCK_CHARS):
            self._blocks.append((lines, last_feed))
            lines += self._text.count("\n", start, start + _BLOCK_CHARS)
            last_feed = max(last_feed, self._text.rfind("\n", start, start + _BLOCK_CHARS))


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
    """One thing that was found.

    Attributes:
        severity: ``error``, ``warning``, ``not checked``, ``info`` or ``ok``.
        message: What was found, in full sentences.
        hint: What to do about it; None if there is nothing to do.
        rule: What was looked at, in words that stay the same: ``device nodes``, ``unknown-key``.
        option: The option that it is about, under the name the user wrote it with.
        place: Where it stands: in a file, or in JSON, as in ``server_list[0].device[3]``.
        source: Where the rule is laid down (adapter file, page of the manual).
        certain: False if it depends on what was not seen: a branch, another file.
        effect: What becomes of the option, where the severity does not say it: ``none`` or
            ``host``.
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
        """Make the placeholders in its sentences readable."""
        message, hint = as_message(message), None if hint is None else as_message(hint)
        return super().__new__(
            cls, severity, message, hint, rule, option, place, source, certain, effect
        )

    @property
    def template(self) -> str:
        """Place, message and hint with their placeholders, to make them part of a message."""
        message = template_of(self.message)
        text = f"{self.place}: {message}" if self.place else message
        return text if self.hint is None else f"{text} {template_of(self.hint)}"

    def __str__(self) -> str:
        return str(as_message(self.template))


def errors_of(findings: Iterable[Finding]) -> List[Finding]:
    """Give those because of which a job should not be started."""
    return [finding for finding in findings if finding.severity == ERROR]


def remarks_of(findings: Iterable[Finding]) -> List[Finding]:
    """Give those that a user should see although they are no reason not to start."""
    return [finding for finding in findings if finding.severity in (WARNING, NOT_CHECKED)]


def sort_by_severity(findings: Iterable[Finding]) -> List[Finding]:
    """Sort errors first, then warnings, what was not checked, and the rest."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def limit_repeats(findings: Iterable[Finding], most: int = 10) -> List[Finding]:
    """Keep the first findings of each severity and rule, and count the others in one more."""
    kept: Dict[Tuple[str, str], List[Finding]] = {}
    left_out: Dict[Tuple[str, str], int] = {}
    for finding in findings:
        key = (finding.severity, finding.rule)
        alike = kept.setdefault(key, [])
        if len(alike) < most:
            alike.append(finding)
        else:
            left_out[key] = left_out.get(key, 0) + 1
    for (severity, rule), count in left_out.items():
        message = f"And {count:,} more like the last one."
        kept[severity, rule].append(Finding(severity, message, rule=rule))
    return [finding for alike in kept.values() for finding in alike]

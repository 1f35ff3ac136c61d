"""What the audit says of one place in a script, the rules it can say it by, and their book."""

import re
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.findings import ERROR, INFO, WARNING, Place

if TYPE_CHECKING:
    from ascend_session.audit.source import Source


SEVERITIES = (ERROR, WARNING, INFO)

# rule id -> what it is about, in one sentence (for lists of rules, as in SARIF)
RULES: Dict[str, str] = {
    "unknown-key": "No adapter reads this key of the NpuOptimizer entry.",
    "wrong-field": "The value is in a protobuf field that the adapter does not read.",
    "field-type": "Protobuf does not take a value of this type in this field.",
    "value-not-allowed": "The option does not take this value.",
    "option-conflict": "Options of one entry or NPURunConfig contradict each other.",
    "option-without-effect": "An option does nothing, or not what it says, beside the others.",
    "deprecated-option": "The vendor's manual calls the option deprecated.",
    "unread-option": "The option is accepted and nothing reads it any more.",
    "wrong-optimizer-name": "The adapter reads entries named NpuOptimizer only.",
    "two-entries": "A configuration gets two NpuOptimizer entries.",
    "config-not-used": "A configuration is built and no session gets it.",
    "memory-optimization-on": "TensorFlow's memory optimisation is left on.",
    "remapping-on": "TensorFlow's remapping is left on.",
    "initialize-not-run": "initialize_system() only makes an operation; nothing runs it.",
    "no-shutdown": "initialize_system is run and shutdown_system is not.",
    "shutdown-skipped": "An exception skips shutdown_system.",
    "unknown-argument": "NPURunConfig or one of its parts has no such argument.",
    "machine-path": "An option holds a path of one machine.",
    "variable-without-default": "An environment variable that is not set ends the script.",
    "inference-as-training": "A frozen graph is compiled for training.",
    "ranks-lost": "A shell script does not learn that a rank has failed.",
    "rank-behind-pipe": "A shell script sees the end of tee, not that of the rank.",
    "no-cleanup": "A shell script leaves its ranks running when it is ended.",
    "fixed-job-id": "All jobs of a shell script have the same JOB_ID.",
    "collectives-off": "Variables that are set together switch collectives off.",
    "rank-table": "The rank table of a shell script is not there, or is refused.",
    "binding-overruns": "CPUs are chosen so that they do not reach on a second server.",
    "not-read": "The file, or a part of it, could not be read.",
}


class AuditFinding(NamedTuple):
    """One thing that was found.

    Attributes:
        file: The file, as it was named or found.
        place: Where in it.
        rule: The rule's id, a key of `RULES`.
        severity: ``error``, ``warning`` or ``info``.
        certain: False where it depends on what the reader cannot see (a branch, another file).
        said: What stands there, and what becomes of it, in full sentences.
        hint: What to write instead; None if there is nothing to write.
        text: The line it stands on, without blanks around it; a baseline goes by that.
    """

    file: str
    place: Place
    rule: str
    severity: str
    certain: bool
    said: str
    hint: Optional[str] = None
    text: str = ""

    def as_dict(self) -> Dict[str, Any]:
        """The finding as JSON can hold it."""
        facts = self._asdict()
        facts.update(facts.pop("place")._asdict())
        return facts


_IGNORE = re.compile(r"#\s*ascend:\s*ignore(?:\[([\w\s,-]*)\])?")


class Book:
    """The findings about one script.

    Args:
        source: The script.
    """

    def __init__(self, source: "Source") -> None:
        self._source = source
        self._found: Dict[Tuple[Place, str, str], AuditFinding] = {}

    def add(
        self,
        rule: str,
        severity: str,
        place: Place,
        said: str,
        hint: Optional[str] = None,
        certain: bool = True,
    ) -> None:
        """Adds a finding; one that is there already becomes certain if this one is."""
        text = self._source.line_of(place)
        finding = AuditFinding(self._source.file, place, rule, severity, certain, said, hint, text)
        before = self._found.get((place, rule, said))
        if before is None or certain:
            self._found[place, rule, said] = finding

    def findings(self) -> List[AuditFinding]:
        """What is left after ``# ascend: ignore[rule]`` on the line of a finding, in order."""
        left = [each for each in self._found.values() if not is_ignored(each)]
        return sorted(left, key=lambda each: (each.place.cell or 0, *each.place[:2], each.rule))


def is_ignored(finding: AuditFinding) -> bool:
    """Whether its line says so: for the named rules, or for all."""
    match = _IGNORE.search(finding.text)
    if match is None:
        return False
    named = match.group(1)
    return named is None or finding.rule in [each.strip() for each in named.split(",")]

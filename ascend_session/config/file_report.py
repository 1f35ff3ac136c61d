"""The report on a configuration file: all problems, with their lines."""

import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.files import add_place, line_of, load_config, where
from ascend_session.config.option import options_by_key
from ascend_session.config.rules import HOST_RULES, RULES
from ascend_session.config.rules.rule import FlatOptions, apply_rules
from ascend_session.errors import AscendConfigWarning
from ascend_session.findings import ERROR, Finding, errors_of


@dataclass(frozen=True)
class FileReport:
    """A configuration read from a file, or the problems that prevent it.

    Attributes:
        file: Its name, as it was given.
        config: The configuration; None if it could not be built.
        problems: Errors in the file, or on this host.
        warnings: Values that are accepted but do not do what they say.
    """

    file: str
    config: Optional[AscendConfig]
    problems: Tuple[Finding, ...]
    warnings: Tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def place_of(self, finding: Finding) -> str:
        """Return file and line, in the form that editors and terminals can jump to."""
        return where(self.file, finding)

    def to_dict(self) -> Dict[str, Any]:
        """Return the report, without the configuration, as plain values for JSON."""
        return {
            "file": self.file,
            "ok": self.ok,
            "problems": [_finding_to_dict(finding) for finding in self.problems],
            "warnings": [_finding_to_dict(finding) for finding in self.warnings],
        }


def _finding_to_dict(finding: Finding) -> Dict[str, Any]:
    return {
        "line": line_of(finding) or None,
        "option": finding.option,
        "message": finding.message,
        "hint": finding.hint,
        "source": finding.source,
    }


def report_file(name: str, environ: Optional[Mapping[str, str]] = None) -> FileReport:
    """Read and check a configuration file; its errors are in the report, never raised.

    Args:
        name: The file, YAML or JSON.
        environ: The environment for the host rules; None skips them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        config, problems, places = load_config(AscendConfig, name)
    if config is None or problems:
        return FileReport(name, None, tuple(problems))
    rules = RULES if environ is None else RULES + HOST_RULES
    findings = apply_rules(rules, FlatOptions(config.values(), environ=environ))
    findings = [add_place(finding, AscendConfig, places) for finding in findings]
    remarks = tuple(finding for finding in findings if finding.severity != ERROR)
    return FileReport(name, config, tuple(errors_of(findings)), remarks)


def resolved_entry(config: AscendConfig) -> List[Dict[str, Any]]:
    """List the keys of the NpuOptimizer entry of ``config``, with value, field and scope."""
    options = options_by_key(AscendConfig)
    return [
        {"key": key, "value": value, "field": options[key].field, "scope": options[key].scope}
        for key, value in config.parameter_map().items()
    ]

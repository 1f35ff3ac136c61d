"""Runs the host rules: a configuration against the paths and variables of this machine."""

from typing import Any, Mapping

from ascend_session.config.checking import findings, report
from ascend_session.config.entry import Entry

__all__ = ["check_host", "check_opening"]


def check_host(config: Any, environ: Mapping[str, str]) -> None:
    """Whether ``config`` can work on this machine; see `AscendConfig.check_host`."""
    from ascend_session.config.rules import HOST_RULES

    if not isinstance(environ, Mapping):
        raise TypeError(f"environ is a mapping such as os.environ, not {environ!r}.")
    report(findings(HOST_RULES, Entry(config.values(), environ=environ)))


def check_opening(values: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """`check_host` for flat values, and that every file which they point to is there now.

    Raises:
        ConfigError: With all problems at once.
    """
    from ascend_session.config.rules import HOST_RULES, paths

    rules = [rule for rule in HOST_RULES if rule.check is not paths.files_that_ge_reads]
    report(findings(rules + paths.OPENING_RULES, Entry(values, environ=environ)))

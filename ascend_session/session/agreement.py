"""Whether a session's options agree with those that its system was initialised with.

Of the options some are read only by the first initialisation in a process and silently ignored
afterwards (scope ``init``); some of those stay in the process after their session has gone
(``sticky``). Source: adapter_behaviour.md, "Life of GE in a process"; options_notes g3.
"""

from typing import Any, Dict, Mapping

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.checking import warn
from ascend_session.config.option import options_by_key
from ascend_session.errors import ConfigError, Problem

__all__ = ["Leftovers", "check_init_options", "init_options"]


def init_options(parameters: Mapping[str, Any]) -> Dict[str, Any]:
    """The part of ``parameters`` that only the first initialisation of a process reads."""
    known = options_by_key(AscendConfig)
    return {key: value for key, value in parameters.items() if known[key].scope == "init"}


def check_init_options(of_system: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuses options that the open system can no longer take on.

    Raises:
        ConfigError: With each option that differs from what the system was opened with.
    """
    known = options_by_key(AscendConfig)
    problems = [
        Problem(
            known[key].path,
            f"{key}={value!r} cannot be had: the system of this process was initialised with "
            f"{_said(of_system, key, known[key].adapter)}.",
        )
        for key, value in init_options(wanted).items()
        if of_system.get(key, known[key].adapter) != value
    ]
    if problems:
        error = ConfigError.of(problems, "what this session asks of the open system")
        error.hint = (
            "Give these options to ascend_system(...), which initialises; sessions share it."
        )
        raise error


def _said(of_system: Mapping[str, Any], key: str, default: Any) -> str:
    if key in of_system:
        return repr(of_system[key])
    return "nothing for it" if default is None else f"the default {default!r}"


class Leftovers:
    """What earlier systems of this process left behind in the adapter."""

    def __init__(self) -> None:
        self._stuck: Dict[str, Any] = {}

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Says what an earlier system leaves behind for one that opens with ``parameters``.

        Raises:
            ConfigError: If both precision modes would meet in the adapter.

        Warns:
            AscendConfigWarning: For each option that stays although it is not asked for.
        """
        pairs = (("precision_mode", "precision_mode_v2"), ("precision_mode_v2", "precision_mode"))
        for stuck, wanted in pairs:
            if stuck in self._stuck and wanted in parameters:
                raise ConfigError(
                    f"{wanted}={parameters[wanted]!r} cannot follow {stuck}={self._stuck[stuck]!r} "
                    "of an earlier system: the adapter keeps that one, and both together fail.",
                    hint=f"Use {stuck} again, or a new process.",
                )
        for key, value in self._stuck.items():
            if key not in parameters:
                warn(
                    f"{key}={value!r} of an earlier system stays in force on a device: the adapter "
                    "keeps it until the process ends. Say it again, or use a new process."
                )

    def remember(self, parameters: Mapping[str, Any]) -> None:
        """Notes what a system that was opened with ``parameters`` leaves behind."""
        known = options_by_key(AscendConfig)
        self._stuck.update({k: v for k, v in parameters.items() if known[k].sticky})

"""Options of a system and of its sessions: what each opens with, and what an earlier one decides.

Some options are read only by the first initialisation in a process and silently ignored afterwards
(scope ``init``); some of those stay in the process after their session has gone (``sticky``).

Sources: guides/facts/process.md#life-of-ge-in-a-process and
guides/facts/process.md#values-that-stay-in-the-process.
"""

import logging
import os
from typing import Any, Dict, Mapping, Optional

from ascend_session.backends.base import Backend
from ascend_session.backends.outside import overlay_config, strip_proto
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import uses_collectives
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import FileStore, adapter_part, flatten
from ascend_session.config.hccl_variables import check_hccl_variables
from ascend_session.config.hints import SIBLINGS
from ascend_session.config.option import Option, options_by_key
from ascend_session.config.overlay import read_overlay
from ascend_session.config.proto import SessionProto, add_to_entry, build_proto
from ascend_session.config.rules import validate, validate_opening
from ascend_session.errors import ConfigError, UnsupportedError, warn
from ascend_session.findings import ERROR, Finding

_logger = logging.getLogger(__name__)


class Leftovers:
    """What earlier systems of this process left behind in the adapter."""

    def __init__(self) -> None:
        self._stuck: Dict[str, Any] = {}

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Say what an earlier system leaves behind for one that opens with ``parameters``.

        Raises:
            ConfigError: If both precision modes would meet in the adapter.

        Warns:
            AscendConfigWarning: For each option that stays although it is not set again.
        """
        for stuck, sibling in SIBLINGS.items():
            if stuck in self._stuck and sibling in parameters:
                raise ConfigError(
                    f"{sibling}={parameters[sibling]!r} cannot follow "
                    f"{stuck}={self._stuck[stuck]!r} of an earlier system: the adapter keeps that "
                    "option, and both together fail.",
                    hint=f"Set {stuck} again, or start a new process.",
                )
        for key, value in self._stuck.items():
            if key not in parameters:
                warn(
                    f"{key}={value!r} of an earlier system stays in force on a device: the adapter "
                    "keeps it until the process ends. Set it again, or start a new process."
                )

    def remember(self, parameters: Mapping[str, Any]) -> None:
        """Note what a system that was opened with ``parameters`` leaves behind."""
        options = options_by_key(AscendConfig)
        self._stuck.update({k: v for k, v in parameters.items() if options[k].sticky})


LEFTOVERS = Leftovers()


class Options:
    """Those of a system, checked against the backend, the host and what was before.

    Attributes:
        proto: What the system is initialised with.
    """

    def __init__(
        self, config: AscendConfig, base: Optional[Any], backend: Backend, job: Job
    ) -> None:
        base = strip_proto(base)
        self._config = config
        self._base = base
        self._backend = backend
        # HCCL reads its variables on a device, in a job of several ranks.
        self._uses_hccl = backend.needs_rank_table and uses_collectives(os.environ)
        # A file that nobody reads is not written; what would be in it is checked all the same.
        self._files = FileStore(os.environ, writes=backend.reads_option_files)
        self.proto = build_proto(config, base, self._files)
        parameters = self.proto.parameters
        validate_opening({**parameters, **flatten(config)}, os.environ, with_hccl=self._uses_hccl)
        if not self._uses_hccl:
            for finding in check_hccl_variables(os.environ, is_used=False):
                _logger.info("%s", finding)
        LEFTOVERS.check(parameters)
        self._check_backend(job, parameters)

    def remember(self) -> None:
        """Note what the initialisation with these options leaves behind."""
        LEFTOVERS.remember(self.proto.parameters)

    def of_session(
        self,
        job: Job,
        config: Optional[AscendConfig],
        base: Optional[Any],
        device_id: Optional[int],
    ) -> SessionProto:
        """Make what a session opens with: its own options, and the system's init-scope options.

        Raises:
            AscendError: If something is given twice and differs, or is refused.
        """
        base = strip_proto(base)
        if config is None:
            config = self._config
        if device_id is not None and "session_device_id" not in read_overlay(os.environ):
            config = _on_device(config, device_id)
        if config is self._config and base is self._base:
            return self.proto
        proto, written = build_proto(config, base, self._files)
        check_init_options(self.proto.parameters, written)
        # Whichever session starts the device decides on these, and the device goes down with the
        # last session of the process, so every session has to carry them.
        fixed = init_options(self.proto.parameters)
        missing = {key: value for key, value in fixed.items() if key not in written}
        parameters = {**written, **missing}
        if missing:
            validate(parameters, written, self.proto.parameters)
            add_to_entry(proto, missing)
        restored = self._files.restore(parameters)
        validate_opening(restored, os.environ, with_hccl=self._uses_hccl)
        self._check_backend(job, parameters)
        return SessionProto(proto, parameters)

    def check_shareable(self, config: AscendConfig) -> None:
        """Raise ConfigError for init-scope options that the system was not initialised with."""
        if config is not self._config:
            check_init_options(self.proto.parameters, adapter_part(config, self._files))

    def _check_backend(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuse what the backend cannot do; warn of what is not as it seems on it."""
        self._backend.require(job, parameters)
        for remark in self._backend.remarks(parameters):
            warn(remark)


def checked(config: Any) -> Optional[AscendConfig]:
    """Return ``config`` if it is an AscendConfig or None, with what is set from outside.

    Raises:
        ConfigError: If it is something else, with what to write instead.
        UnsupportedError: If it asks for parameter servers, which only NPURunConfig reads.
    """
    if isinstance(config, AscendConfig):
        if config.distribute is not None:
            raise UnsupportedError(
                "distribute needs parameter servers, which only the vendor's NPUEstimator "
                "supports: here each session would train alone.",
                hint="Give it to NPUEstimator: NPURunConfig(**config.to_run_config_kwargs()).",
            )
        return overlay_config(config)
    if config is None:
        return None
    kind = type(config).__name__
    hint = "Write AscendConfig(**options)." if isinstance(config, dict) else None
    if kind == "ConfigProto":
        hint = "Give it as session_config=, or read it with AscendConfig.from_config_proto()."
    raise ConfigError(f"config must be an AscendConfig, this is {kind}.", hint=hint)


def init_options(parameters: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the part of ``parameters`` that only the first initialisation of a process reads."""
    options = options_by_key(AscendConfig)
    return {key: value for key, value in parameters.items() if options[key].scope == "init"}


def late_options(initial: Mapping[str, Any], parameters: Mapping[str, Any]) -> Dict[str, Option]:
    """Return the options that a session wants otherwise than the device was initialised with."""
    options = options_by_key(AscendConfig)
    late = init_options(parameters).items()
    return {k: options[k] for k, value in late if initial.get(k, options[k].adapter) != value}


def check_init_options(of_system: Mapping[str, Any], of_session: Mapping[str, Any]) -> None:
    """Refuse options that the open system can no longer take on.

    Raises:
        ConfigError: With each option that differs from what the system was opened with.
    """
    problems = [
        Finding(
            ERROR,
            f"{key}={of_session[key]!r} comes too late: the device was initialised with "
            f"{_initial_value(of_system, key, option.adapter)}.",
            option=option.path,
        )
        for key, option in late_options(of_system, of_session).items()
    ]
    if problems:
        error = ConfigError.from_problems(problems, "options that the open system does not have")
        error.hint = "Give these options to ascend_system(...), which initialises the device."
        raise error


def _initial_value(of_system: Mapping[str, Any], key: str, default: Any) -> str:
    if key in of_system:
        return repr(of_system[key])
    return f"no {key}" if default is None else f"the default {default!r}"


def _on_device(config: AscendConfig, device_id: int) -> AscendConfig:
    configured = config.session_device_id
    if configured is not None and configured != device_id:
        raise ConfigError(
            f"The device was given twice: device_id={device_id} here, "
            f"session_device_id={configured} in the AscendConfig.",
            hint="Set it in one place only.",
        )
    AscendConfig(session_device_id=device_id)  # the same checks as in the configuration
    return config.copy_with(session_device_id=device_id)

"""The protos of one system: its own, and those of sessions that share it."""

from typing import Any, Dict, NamedTuple, Optional

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.checking import report_new
from ascend_session.config.file_store import FileStore
from ascend_session.config.proto import add_to_entry, read_entry
from ascend_session.errors import ConfigError, UnsupportedError
from ascend_session.session.agreement import check_init_options, init_options

__all__ = ["Protos", "SessionProto", "checked"]


def checked(config: Any) -> Optional[AscendConfig]:
    """``config``, if it is an AscendConfig or None.

    Raises:
        ConfigError: If it is something else, with what to write instead.
        UnsupportedError: If it asks for parameter servers, which only NPURunConfig reads.
    """
    if isinstance(config, AscendConfig) and config.distribute is not None:
        raise UnsupportedError(
            "distribute asks for a job with parameter servers, of which only the vendor's "
            "NPUEstimator makes one: here each session would train alone.",
            hint="Give it to NPUEstimator: NPURunConfig(**config.to_run_config_kwargs()).",
        )
    if config is None or isinstance(config, AscendConfig):
        return config
    kind = type(config).__name__
    hint = "Write AscendConfig(**options)." if isinstance(config, dict) else None
    if kind == "ConfigProto":
        hint = "Give it as session_config=, or read it with AscendConfig.from_config_proto()."
    raise ConfigError(f"config must be an AscendConfig, this is {kind}.", hint=hint)


class SessionProto(NamedTuple):
    """A ``tf.ConfigProto`` and the keys and values of its NpuOptimizer entry."""

    proto: Any
    parameters: Dict[str, Any]


class Protos:
    """Makes the protos; all of one system agree on what its initialisation has fixed.

    Attributes:
        of_system: What the system is initialised with, and its sessions by default.
        files: Where the files go that configurations hold as objects.
    """

    def __init__(
        self,
        config: AscendConfig,
        base: Optional[Any] = None,
        files: Optional[FileStore] = None,
    ) -> None:
        self._config = config
        self._base = base
        self.files = FileStore() if files is None else files
        proto = self.files.stored(config).to_config_proto(base)
        self.of_system = SessionProto(proto, read_entry(proto))

    def for_session(
        self, config: Optional[AscendConfig], base: Optional[Any], device_id: Optional[int]
    ) -> SessionProto:
        """What a session opens with: its own options, and the system's init-scope options.

        Raises:
            ConfigError: If something is given twice and differs, or contradicts the system.
        """
        wanted = self._config if config is None else config
        if device_id is not None:
            wanted = _on_device(wanted, device_id)
        if wanted is self._config and base is self._base:
            return self.of_system
        proto = self.files.stored(wanted).to_config_proto(base)
        parameters = read_entry(proto)
        check_init_options(self.of_system.parameters, parameters)
        return SessionProto(proto, self._completed(proto, parameters))

    def _completed(self, proto: Any, parameters: Dict[str, Any]) -> Dict[str, Any]:
        """Adds the system's init-scope options.

        Whichever session starts the device decides on them, and the device goes down with the
        last session of the process, so every session has to carry them.
        """
        fixed = init_options(self.of_system.parameters)
        missing = {key: value for key, value in fixed.items() if key not in parameters}
        if missing:
            report_new({**parameters, **missing}, parameters, self.of_system.parameters)
            add_to_entry(proto, missing)
        return {**parameters, **missing}


def _on_device(config: AscendConfig, device_id: int) -> AscendConfig:
    asked = config.session_device_id
    if asked is not None and asked != device_id:
        raise ConfigError(
            f"The device was given twice: device_id={device_id} here, session_device_id={asked} "
            "in the AscendConfig.",
            hint="Say it in one place only.",
        )
    AscendConfig(session_device_id=device_id)  # the same checks as if it had been said there
    return config.model_copy(update={"session_device_id": device_id})

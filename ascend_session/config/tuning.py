"""The configuration to tune with, and the one to look with whether tuning has helped.

Sources: seed 003 (precautions, performance verification); the adapter's manual, AOE.md (words and
numbers of ``aoe_mode``); options_notes d and a40.
"""

from typing import TYPE_CHECKING, Any, Dict, Optional

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding

if TYPE_CHECKING:
    from ascend_session.config.ascend_config import AscendConfig

MODES: Dict[str, str] = {"subgraph": "1", "operator": "2", "gradient": "4"}
"""What AOE can tune, and the value of ``aoe_mode`` and ``AOE_MODE`` for it."""

_WORDS = {number: word for word, number in MODES.items()}
# The adapter reads them only while AOE tunes (geop_npu.cc).
_OF_TUNING = ("aoe_mode", "work_path", "aoe_config_file", "distribute_config")


def mode_number(mode: str) -> str:
    """Give the value of ``aoe_mode`` for a word of `MODES`; a value of it stands for itself.

    Raises:
        ConfigError: If it is neither.
    """
    if mode in (*_WORDS,):  # a tuple, for what has no hash is no mode either
        return mode
    if mode not in (*MODES,):
        known = ", ".join(f"{word} ({number})" for word, number in MODES.items())
        message = f"mode={mode!r} is nothing that AOE tunes; it tunes {known}."
        hint = f"Write mode={str(mode)!r}." if str(mode) in _WORDS else None  # as of the number 2
        raise ConfigError.of([Finding(ERROR, message, hint, option="aoe_mode")])
    return MODES[mode]


def mode_word(mode: str) -> str:
    """Give the word of `MODES` for a word or a number; raises as `mode_number`."""
    return _WORDS[mode_number(mode)]


def to_tune(config: "AscendConfig", mode: str, work_path: Optional[str]) -> "AscendConfig":
    """See `AscendConfig.for_tuning`."""
    from ascend_session.config.parts import MemoryConfig

    memory = {} if config.memory_config is None else config.memory_config.given()
    changes: Dict[str, Any] = {
        "aoe_mode": mode_number(mode),
        "memory_config": MemoryConfig(**{**memory, "static_memory_policy": 0}),
        "profiling_config": None,
    }
    if work_path is not None:
        changes["work_path"] = work_path
    return config.replace(**changes)


def to_verify(config: "AscendConfig", mode: Optional[str]) -> "AscendConfig":
    """See `AscendConfig.for_verifying`."""
    number = mode_number(config.aoe_mode or "operator" if mode is None else mode)
    changes: Dict[str, Any] = dict.fromkeys(_OF_TUNING)
    if number == MODES["operator"]:
        changes["op_compiler_cache_mode"] = "force"
    return config.replace(**changes)

"""The modes of AOE, in words and as numbers of ``aoe_mode``, and the options of tuning.

Source: the adapter's manual, AOE.md; guides/facts/aoe.md#aoe-tuning.
"""

from typing import Dict

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding

MODES: Dict[str, str] = {"subgraph": "1", "operator": "2", "gradient": "4"}
"""What AOE can tune, and the value of ``aoe_mode`` and ``AOE_MODE`` for it."""

TUNING_DETAILS = ("work_path", "distribute_config", "aoe_config_file")
"""Options that the adapter reads only while AOE tunes (geop_npu.cc)."""

_WORDS = {number: word for word, number in MODES.items()}


def mode_number(mode: str) -> str:
    """Return the value of ``aoe_mode`` for a word of `MODES`, or for a value itself.

    Raises:
        ConfigError: If it is neither.
    """
    if mode in (*_WORDS,):  # a tuple, so that an unhashable mode is refused, too
        return mode
    if mode not in (*MODES,):
        modes = ", ".join(f"{word} ({number})" for word, number in MODES.items())
        message = f"mode={mode!r} is not a mode of AOE. The modes are {modes}."
        hint = f"Write mode={str(mode)!r}." if str(mode) in _WORDS else None  # as of the number 2
        raise ConfigError.from_problems([Finding(ERROR, message, hint, option="aoe_mode")])
    return MODES[mode]


def mode_word(mode: str) -> str:
    """Return the word of `MODES` for a word or a number; raises as `mode_number`."""
    return _WORDS[mode_number(mode)]

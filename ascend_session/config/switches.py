"""Grammars of options that give each of several names a value, and of the multi-stream mode.

Sources: seed 000 (stream_max_parallel_num), options.json, SetPassSwitch in GE's
optimization_option.cc.
"""

import re
from typing import List, Mapping, Tuple

from ascend_session.config.grammar import INT32_MAX, has_blank, is_whole, refused, whole, wrong_type

__all__ = ["auto_multistream_parallel_mode", "optimization_switch", "stream_max_parallel_num"]

_ENGINES = "DNN_VM_AICPU:10,AIcoreEngine:1"
_PASSES = "PassA:on;PassB:off"
_STREAMS = "(?s)(LoadBalance|MainStream|WeightedLoadBalance)(?::(.*))?"
_MOST_STREAMS = 64


def stream_max_parallel_num(value: object) -> str:
    """Parallel tasks per engine: ``"DNN_VM_AICPU:10,AIcoreEngine:1"`` or {engine: count}.

    Counts are 1 or more (and at most the number of AI cores, which only the device knows).
    """
    text = value if isinstance(value, str) else _engines_text(value)
    for engine, count in _named(text, ",", value, _ENGINES):
        if whole(count, 1, INT32_MAX) is None:
            wrong = f"engine {engine!r} has {count!r} tasks, which is no number from 1 up"
            raise refused(value, wrong, _ENGINES)
    return text


def _engines_text(value: object) -> str:
    if not isinstance(value, Mapping) or not all(is_whole(count) for count in value.values()):
        raise wrong_type(value, "text, a mapping of engine names to ints", _ENGINES)
    return _joined(value, ",", _ENGINES)


def optimization_switch(value: object) -> str:
    """Passes on or off: ``"PassA:on;PassB:off"`` or {pass: bool}.

    GE skips an item it cannot read with no more than a log line, so such items are refused.
    """
    text = value if isinstance(value, str) else _passes_text(value)
    for name, state in _named(text, ";", value, _PASSES):
        if state not in ("on", "off"):
            wrong = f"pass {name!r} is {state!r}, which is neither 'on' nor 'off'"
            raise refused(value, wrong, _PASSES)
    return text


def _passes_text(value: object) -> str:
    if not isinstance(value, Mapping) or not all(type(on) is bool for on in value.values()):
        raise wrong_type(value, "text, a mapping of pass names to True or False", _PASSES)
    states = {name: "on" if on else "off" for name, on in value.items()}
    return _joined(states, ";", _PASSES)


def _joined(value: Mapping[object, object], separator: str, example: str) -> str:
    for name in value:
        if not isinstance(name, str) or not name or ":" in name or separator in name:
            wrong = f"{name!r} is no name (text without ':' and {separator!r})"
            raise refused(value, wrong, example)
    return separator.join(f"{name}:{state}" for name, state in value.items())


def _named(text: str, separator: str, given: object, example: str) -> List[Tuple[str, str]]:
    """The ``name:value`` items of ``text``, each name once."""
    found: List[Tuple[str, str]] = []
    for item in text.split(separator):
        name, colon, state = item.partition(":")
        if not name or not colon or has_blank(name):
            wrong = f"{item!r} is no item of the form name:value" if text else "it is empty"
            raise refused(given, wrong, example)
        if name in (known for known, _ in found):
            raise refused(given, f"{name!r} is named twice", example)
        found.append((name, state))
    return found


def auto_multistream_parallel_mode(value: object) -> str:
    """How operators are spread over streams: "cv", or an algorithm and 1..64 streams.

    ``"LoadBalance:8"``, ``"MainStream:8"`` and ``"WeightedLoadBalance:8"`` have the number of
    streams after the colon.

    Raises:
        ValueError: For a bare "LoadBalance" too: the docstring of NPURunConfig shows it, GE
            refuses it (trap 22 of the option notes).
    """
    if not isinstance(value, str):
        raise wrong_type(value, "text", "LoadBalance:8")
    if value == "cv":
        return value
    match = re.fullmatch(_STREAMS, value)
    if match is None:
        names = "'cv', 'LoadBalance:n', 'MainStream:n', 'WeightedLoadBalance:n'"
        raise refused(value, f"accepted are {names}, with n from 1 to 64", "LoadBalance:8")
    if match.group(2) is None:
        wrong = f"GE wants the number of streams after {value!r}, although NPURunConfig omits it"
        raise refused(value, wrong, f"{value}:8")
    if whole(match.group(2), 1, _MOST_STREAMS) is None or match.group(2).startswith("0"):
        wrong = f"the number of streams is {match.group(2)!r} and must be 1 to {_MOST_STREAMS}"
        raise refused(value, wrong, f"{match.group(1)}:8")
    return value

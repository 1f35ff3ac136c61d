"""Grammars of names that have a value each: engines, passes, the algorithm of multi-streaming.

Sources: SetPassSwitch in GE's optimization_option.cc; guides/facts/options.md.
"""

import re
from typing import List, Mapping, Tuple, Union

from typing_extensions import Annotated

from ascend_session.config.grammars.grammar import (
    COUNT,
    INT32_MAX,
    Grammar,
    UnusableError,
    grammar,
    has_blank,
    is_whole,
    mapping_of,
    parse_whole,
    text_or,
)


@grammar("text, a mapping of engine names to ints", "DNN_VM_AICPU:10,AIcoreEngine:1")
def stream_max_parallel_num(value: object) -> str:
    """Parallel tasks per engine: ``"DNN_VM_AICPU:10,AIcoreEngine:1"`` or {engine: count}.

    Counts are 1 or more (and at most the number of AI cores, which only the device knows).
    """
    if isinstance(value, Mapping) and all(map(is_whole, value.values())):
        value = _join_items(value, ",")
    for engine, count in _split_items(value, ","):
        if parse_whole(count, 1, INT32_MAX) is None:
            reason = f"has {count!r} tasks, which is not a number from 1 up"
            raise UnusableError(f"engine {engine!r} {reason}")
    return str(value)


StreamParallel = Annotated[
    Union[str, Mapping[str, int]], Grammar(stream_max_parallel_num, text_or(mapping_of(COUNT)))
]


@grammar("text, a mapping of pass names to True or False", "PassA:on;PassB:off")
def optimization_switch(value: object) -> str:
    """Passes on or off: ``"PassA:on;PassB:off"`` or {pass: bool}.

    GE skips an item it cannot read with no more than a log line, so such items are refused.
    """
    if isinstance(value, Mapping) and all(type(on) is bool for on in value.values()):
        value = _join_items({name: "on" if on else "off" for name, on in value.items()}, ";")
    for name, state in _split_items(value, ";"):
        if state not in ("on", "off"):
            raise UnusableError(f"pass {name!r} is {state!r}, which is neither 'on' nor 'off'")
    return str(value)


PassSwitch = Annotated[
    Union[str, Mapping[str, bool]],
    Grammar(optimization_switch, text_or(mapping_of({"type": "boolean"}))),
]


def _join_items(items: Mapping[object, object], separator: str) -> str:
    for name in items:
        if not isinstance(name, str) or not name or ":" in name or separator in name:
            raise UnusableError(f"{name!r} is not a name (text without ':' and {separator!r})")
    return separator.join(f"{name}:{state}" for name, state in items.items())


def _split_items(text: object, separator: str) -> List[Tuple[str, str]]:
    """Read the ``name:value`` items of a text, each name once."""
    if not isinstance(text, str):
        raise UnusableError
    items: List[Tuple[str, str]] = []
    for item in text.split(separator):
        name, colon, state = item.partition(":")
        if not name or not colon or has_blank(name):
            raise UnusableError(
                f"{item!r} is not of the form name:value" if text else "it is empty"
            )
        if name in (known for known, _ in items):
            raise UnusableError(f"{name!r} is named twice")
        items.append((name, state))
    return items


_ALGORITHMS = "LoadBalance|MainStream|WeightedLoadBalance"
_STREAMS = f"(?s)({_ALGORITHMS})(?::(.*))?"
_MOST_STREAMS = 64


@grammar("text", "LoadBalance:8")
def auto_multistream_parallel_mode(value: object) -> str:
    """How operators are spread over streams: "cv", or an algorithm and 1..64 streams.

    ``"LoadBalance:8"``, ``"MainStream:8"`` and ``"WeightedLoadBalance:8"`` have the number of
    streams after the colon.

    Raises:
        ValueError: For a bare "LoadBalance" too: the docstring of NPURunConfig shows it, GE
            refuses it (guides/facts/dynamic.md#dynamic-graphs).
    """
    if not isinstance(value, str):
        raise UnusableError
    if value == "cv":
        return value
    match = re.fullmatch(_STREAMS, value)
    if match is None:
        names = "'cv', 'LoadBalance:n', 'MainStream:n', 'WeightedLoadBalance:n'"
        raise UnusableError(f"accepted are {names}, with n from 1 to 64")
    algorithm, streams = match.groups()
    if streams is None:
        reason = f"GE wants the number of streams after {value!r}, although NPURunConfig omits it"
        raise UnusableError(reason, f"{value}:8")
    if parse_whole(streams, 1, _MOST_STREAMS) is None or streams.startswith("0"):
        reason = f"the number of streams is {streams!r} and must be 1 to {_MOST_STREAMS}"
        raise UnusableError(reason, f"{algorithm}:8")
    return value


_MODES = {"type": "string", "pattern": f"^(cv|({_ALGORITHMS}):[1-9][0-9]?)$"}
MultistreamMode = Annotated[str, Grammar(auto_multistream_parallel_mode, _MODES)]

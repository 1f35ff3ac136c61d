"""Grammars of lists: steps, devices, names, names with a value each, and pairs of operators.

Sources: checkDumpStep and CheckDeviceList in npu_attrs.cc; SetPassSwitch in GE's
optimization_option.cc; ParseInOutPair in om_partition_subgraphs_pass.cc, which drops single quotes,
spaces and tabs and knows brackets and commas, so that everything else, double quotes too, becomes
part of a name; guides/facts/options.md.
"""

import ast
import re
from typing import Any, List, Mapping, Sequence, Tuple, Union

from typing_extensions import Annotated

from ascend_session.config.grammars import (
    COUNT,
    INT32_MAX,
    TEXT,
    UnusableError,
    grammar,
    has_blank,
    is_list,
    is_whole,
    list_of,
    mapping_of,
    parse_whole,
    text_or,
)

_MOST_STEPS = 100
_NO_BLANKS = "[^ \t\n\v\f\r]+"  # what >> of a C++ stream reads as one name


_STEP = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_STEP_RANGE = list_of(_STEP, minItems=2, maxItems=2)
_STEPS = list_of({"anyOf": [_STEP, _STEP_RANGE]}, maxItems=_MOST_STEPS)


@grammar(
    "text, one step, a range, a list of steps, of (first, last) pairs and of ranges",
    "0|3-5|10",
    text_or(_STEP, _STEPS),
)
def dump_step(value: object) -> str:
    """Steps to dump: ``"0|3-5|10"``, or ints, (first, last) pairs and ranges in a list.

    At most 100 items; steps 0..2147483647 (the adapter reads them with atoi); a range rises. A
    tuple at the top is a list of steps, a pair stands inside a list: ``[(3, 5)]``.

    Raises:
        ValueError: Also for what the adapter takes but reads as something else: "5-", "-5", "0|".
    """
    if not isinstance(value, str):
        items = [value] if is_whole(value) or isinstance(value, range) else value
        if not is_list(items):
            raise UnusableError
        value = "|".join(map(_write_step, items))
    parts = value.split("|")
    if len(parts) > _MOST_STEPS:
        raise UnusableError(f"it has {len(parts)} items and the adapter takes at most 100")
    if not value:
        raise UnusableError("it names no step, and without the option every step is dumped")
    for part in parts:
        if not part:
            raise UnusableError("a step is missing before or after a '|'")
        bounds = [parse_whole(bound, 0, INT32_MAX) for bound in part.split("-")]
        first, last = bounds[0], bounds[-1]
        if first is None or last is None or len(bounds) > 2:
            either = f"neither a step (0 to {INT32_MAX}) nor a range such as '3-5'"
            raise UnusableError(f"{part!r} is {either}")
        if len(bounds) == 2 and first >= last:
            raise UnusableError(f"the range {part!r} must go from a lower step to a higher one")
    return value


DumpStep = Annotated[Union[str, int, Sequence[Any]], dump_step]


def _write_step(item: object) -> str:
    if is_whole(item):
        return str(item)
    if isinstance(item, range):
        if item.step != 1 or not item:
            raise UnusableError(f"{item!r} must count up by 1 and not be empty", range(3, 6))
        return str(item[0]) if len(item) == 1 else f"{item[0]}-{item[-1]}"
    if is_list(item) and len(item) == 2 and is_whole(item[0]) and is_whole(item[1]):
        return f"{item[0]}-{item[1]}"
    reason = f"{item!r} is neither a step, a (first, last) pair nor a range"
    raise UnusableError(reason, [0, (3, 5), 10])


_DEVICES = list_of({"type": "integer", "minimum": 0, "maximum": 9})


@grammar("text, a list of ids", "0,1", text_or(_DEVICES))
def local_device_list(value: object) -> str:
    """Devices that the main process feeds: ``"0,1"`` or a list of ints.

    Raises:
        ValueError: For ids above 9 too: the adapter reads the list two characters at a time, so
            that "10,11" becomes 10, 0 and 1 (guides/facts/options.md#data-distribution).
    """
    if is_list(value) and all(map(is_whole, value)):
        value = ",".join(map(str, value))
    if not isinstance(value, str):
        raise UnusableError
    parts = value.split(",")
    for part in parts:
        if parse_whole(part, 0, INT32_MAX) is None:
            raise UnusableError(f"{part!r} is not a device id (a digit, 0 to 9)")
        if len(part) > 1:
            reason = "has more than one digit, and the adapter reads each id as one digit"
            raise UnusableError(f"{part!r} {reason}")
    if len(set(parts)) < len(parts):
        raise UnusableError("a device is named twice")
    return value


DeviceList = Annotated[Union[str, Sequence[int]], local_device_list]


_NAMES = text_or(list_of(TEXT, minItems=1))


@grammar("text, a list of names", "Pooling,SoftmaxV2", _NAMES)
def comma_names(value: object) -> str:
    """Names with commas between: ``"A,B"`` or a list of names (passes, operator types).

    Raises:
        ValueError: For an empty name, or a blank or a comma inside one.
    """
    names = value.split(",") if isinstance(value, str) else _check_names(value)
    for name in names:
        if not name:
            raise UnusableError("a name is missing")
        if has_blank(name) or "," in name:
            reason = "has a blank or a comma in it (names have commas between, no blanks)"
            raise UnusableError(f"{name!r} {reason}")
    return value if isinstance(value, str) else ",".join(names)


CommaNames = Annotated[Union[str, Sequence[str]], comma_names]


@grammar("text, a list of names", "conv1 conv2", _NAMES)
def dump_layer(value: object) -> str:
    """Operators to dump: ``"conv1 conv2"`` with blanks between, or a list of names.

    Raises:
        ValueError: For a comma too: no operator name has one, it would be taken into the name.
    """
    names = re.findall(_NO_BLANKS, value) if isinstance(value, str) else _check_names(value)
    if not names:
        raise UnusableError("it names no operator")
    for name in names:
        if "," in name:
            raise UnusableError(f"{name!r} has a comma in it, and names are separated with blanks")
        if not name or has_blank(name):
            raise UnusableError(f"{name!r} is not an operator name", ["conv1", "conv2"])
    return value if isinstance(value, str) else " ".join(names)


DumpLayer = Annotated[Union[str, Sequence[str]], dump_layer]


def _check_names(value: object) -> List[str]:
    names = [name for name in value if isinstance(name, str)] if is_list(value) else []
    if not is_list(value) or len(names) < len(value):
        raise UnusableError
    if not names:
        raise UnusableError("it has no name in it")
    return names


_CORES = list_of({"anyOf": [COUNT, {"type": "null"}]}, maxItems=2)


@grammar("text, a (cube, vector) pair of ints", "24|48", text_or(_CORES))
def aicore_num(value: object) -> str:
    """Upper limit of cube and vector cores: ``"24|48"``, or a (cube, vector) pair.

    Chips without vector cores take ``"24|"`` or ``(24, None)``. GE wants plain decimals above 0,
    without leading zeros or blanks, and only warns when the ``|`` is missing.
    """
    if is_list(value) and len(value) == 2:
        first, second = value
        if is_whole(first) and (second is None or is_whole(second)):
            value = f"{first}|{'' if second is None else second}"
    if not isinstance(value, str):
        raise UnusableError
    cube, bar, vector = value.partition("|")
    if not bar:
        where = "('24|' where there is no vector)"
        raise UnusableError(f"the '|' between cube and vector cores is missing {where}")
    for part in [cube, vector] if vector else [cube]:
        if parse_whole(part, 1, INT32_MAX) is None or part.startswith("0"):
            reason = "is not a number of cores (decimal above 0, no leading 0, no blank)"
            raise UnusableError(f"{part!r} {reason}")
    return value


CoreNumber = Annotated[Union[str, Sequence[int]], aicore_num]


@grammar(
    "text, a mapping of engine names to ints",
    "DNN_VM_AICPU:10,AIcoreEngine:1",
    text_or(mapping_of(COUNT)),
)
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


StreamParallel = Annotated[Union[str, Mapping[str, int]], stream_max_parallel_num]


@grammar(
    "text, a mapping of pass names to True or False",
    "PassA:on;PassB:off",
    text_or(mapping_of({"type": "boolean"})),
)
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


PassSwitch = Annotated[Union[str, Mapping[str, bool]], optimization_switch]


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
        if name in (each for each, _ in items):
            raise UnusableError(f"{name!r} is named twice")
        items.append((name, state))
    return items


_ALGORITHMS = "LoadBalance|MainStream|WeightedLoadBalance"
_STREAMS = f"(?s)({_ALGORITHMS})(?::(.*))?"
_MOST_STREAMS = 64
_MODES = {"type": "string", "pattern": f"^(cv|({_ALGORITHMS}):[1-9][0-9]?)$"}


@grammar("text", "LoadBalance:8", _MODES)
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


MultistreamMode = Annotated[str, auto_multistream_parallel_mode]


# in_out_pair ------------------------------------------------------------------------------------

_PAIRS_EXAMPLE = [[["conv1"], ["relu9"]]]
_NOT_IN_NAMES = "[](){},'\"\\:"


@grammar(
    "a list of [inputs, outputs] pairs of name lists, or its str()",
    _PAIRS_EXAMPLE,
    text_or({"type": "array", "minItems": 1}),
)
def in_out_pair(value: object) -> str:
    """First and last operators of the parts to offload (or not): ``[[["in1"], ["out1"]], ...]``.

    Takes that list, or the text that ``str()`` makes of it. Each pair has exactly two lists of
    operator names, neither empty (the adapter silently skips other pairs).
    """
    if isinstance(value, str):
        _check_pairs_text(value)
        return value
    if not is_list(value):
        raise UnusableError
    _check_pairs(value, _PAIRS_EXAMPLE)
    return _write_pairs(value)


InOutPair = Annotated[Union[str, Sequence[Any]], in_out_pair]


def _check_pairs_text(text: str) -> None:
    example = str(_PAIRS_EXAMPLE)
    if '"' in text:
        reason = "the adapter takes double quotes into the names, so single quotes are needed"
        raise UnusableError(reason, example)
    if "\\" in text:  # also keeps Python from warning about escapes
        raise UnusableError("an operator name has no backslash", example)
    try:
        pairs: object = ast.literal_eval(text.strip(" \t"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pairs = None
    _check_pairs(pairs, example)
    # The adapter drops blanks and tabs.
    rewritten = _write_pairs(pairs)
    if re.sub("[ \t]", "", text) != re.sub("[ \t]", "", rewritten):
        reason = (
            "it is not as str() writes it, and the adapter's parser does not know all of Python"
        )
        raise UnusableError(reason, example)


def _check_pairs(pairs: object, example: object) -> None:
    if not is_list(pairs) or not pairs:
        raise UnusableError("it is not a list of [inputs, outputs] pairs", example)
    for pair in pairs:
        if not is_list(pair) or len(pair) != 2:
            reason = "is not a pair of two lists, [inputs, outputs]"
            raise UnusableError(f"{pair!r} {reason}", example)
        for names in pair:
            if not is_list(names) or not names:
                reason = "is not a list of at least one operator name"
                raise UnusableError(f"{names!r} {reason}", example)
            for name in names:
                if not _is_operator_name(name):
                    reason = "is not an operator name (text, no blank, quote, bracket or colon)"
                    raise UnusableError(f"{name!r} {reason}", example)


def _is_operator_name(name: object) -> bool:
    if not isinstance(name, str) or not name or has_blank(name) or not name.isprintable():
        return False
    return not any(character in _NOT_IN_NAMES for character in name)


def _write_pairs(pairs: Any) -> str:
    """Write checked pairs; tuples become lists, whose brackets the adapter counts."""
    return str([[[str(name) for name in names] for names in pair] for pair in pairs])

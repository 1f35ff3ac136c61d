"""Grammars of options that are numbers, names, paths, or names with values.

Each function takes the vendor's text, which it returns to the letter, or a structured form, and
returns the text that the adapter gets. It raises ValueError with one sentence.

Sources: checkDumpStep and CheckDeviceList in npu_attrs.cc; SetPassSwitch in GE's
optimization_option.cc; ParserAccelerateTrain in geop_npu.cc, which reads the ratio with
strings::safe_strtof of TensorFlow 1.15 and compares 32-bit floats; ParseInOutPair in
om_partition_subgraphs_pass.cc, which drops single quotes, spaces and tabs and knows brackets and
commas, so that everything else, double quotes too, becomes part of a name; seeds 000, 001 and 002;
options.json.
"""

import ast
import os
import re
import struct
from typing import Any, List, Mapping, Optional, Tuple

from ascend_session.config.grammar import (
    INT32_MAX,
    has_blank,
    is_list,
    is_whole,
    refused,
    whole,
    wrong_type,
)

_STEPS_EXAMPLE = "0|3-5|10"
_STEPS_FORMS = "text, one step, a range, a list of steps, of (first, last) pairs and of ranges"
_MOST_STEPS = 100
_NO_BLANKS = "[^ \t\n\v\f\r]+"  # what >> of a C++ stream reads as one name
_MOST_BYTES = 2**64 - 1


def dump_step(value: object) -> str:
    """Steps to dump: ``"0|3-5|10"``, or ints, (first, last) pairs and ranges in a list.

    At most 100 items; steps 0..2147483647 (the adapter reads them with atoi); a range rises. A
    tuple at the top is a list of steps, a pair stands inside a list: ``[(3, 5)]``.

    Raises:
        ValueError: Also for what the adapter takes but reads as something else: "5-", "-5", "0|".
    """
    text = value if isinstance(value, str) else _steps_text(value)
    parts = text.split("|")
    if len(parts) > _MOST_STEPS:
        wrong = f"it has {len(parts)} items and the adapter takes at most {_MOST_STEPS}"
        raise refused(value, wrong, _STEPS_EXAMPLE)
    for part in parts:
        problem = _wrong_step(part, text)
        if problem is not None:
            raise refused(value, problem, _STEPS_EXAMPLE)
    return text


def _wrong_step(part: str, text: str) -> Optional[str]:
    if not text:
        return "it names no step (leave the option out to dump every step)"
    if not part:
        return "a step is missing before or after a '|'"
    bounds = [whole(bound, 0, INT32_MAX) for bound in part.split("-")]
    first, last = bounds[0], bounds[-1]
    if first is None or last is None or len(bounds) > 2:
        return f"{part!r} is neither a step (0 to {INT32_MAX}) nor a range such as '3-5'"
    if len(bounds) == 2 and first >= last:
        return f"the range {part!r} must go from a lower step to a higher one"
    return None


def _steps_text(value: object) -> str:
    items = [value] if is_whole(value) or isinstance(value, range) else value
    if not is_list(items):
        raise wrong_type(value, _STEPS_FORMS, _STEPS_EXAMPLE)
    return "|".join(_step_text(item, value) for item in items)


def _step_text(item: object, given: object) -> str:
    if is_whole(item):
        return str(item)
    if isinstance(item, range):
        if item.step != 1 or not item:
            raise refused(given, f"{item!r} must count up by 1 and not be empty", range(3, 6))
        return str(item[0]) if len(item) == 1 else f"{item[0]}-{item[-1]}"
    if is_list(item) and len(item) == 2 and is_whole(item[0]) and is_whole(item[1]):
        return f"{item[0]}-{item[1]}"
    wrong = f"{item!r} is neither a step, a (first, last) pair nor a range"
    raise refused(given, wrong, [0, (3, 5), 10])


def local_device_list(value: object) -> str:
    """Devices that the main process feeds: ``"0,1"`` or a list of ints.

    Raises:
        ValueError: For ids above 9 too: the adapter reads the list two characters at a time, so
            that "10,11" becomes 10, 0 and 1 (trap 18 of the option notes).
    """
    if not isinstance(value, str) and not (is_list(value) and all(is_whole(v) for v in value)):
        raise wrong_type(value, "text, a list of ids", "0,1")
    text = value if isinstance(value, str) else ",".join(str(item) for item in value)
    parts = text.split(",")
    for part in parts:
        if whole(part, 0, INT32_MAX) is None:
            raise refused(value, f"{part!r} is no device id (a digit, 0 to 9)", "0,1")
        if len(part) > 1:
            wrong = f"{part!r} has more than one digit, and the adapter reads each id as one digit"
            raise refused(value, wrong, "0,1")
    if len(set(parts)) < len(parts):
        raise refused(value, "a device is named twice", "0,1")
    return text


def comma_names(value: object) -> str:
    """Names with commas between: ``"A,B"`` or a list of names (passes, operator types).

    Raises:
        ValueError: For an empty name, or a blank or a comma inside one.
    """
    names = value.split(",") if isinstance(value, str) else _listed(value, "Pooling,SoftmaxV2")
    for name in names:
        if not name:
            raise refused(value, "a name is missing", "Pooling,SoftmaxV2")
        if has_blank(name) or "," in name:
            wrong = f"{name!r} has a blank or a comma in it (names have commas between, no blanks)"
            raise refused(value, wrong, "Pooling,SoftmaxV2")
    return value if isinstance(value, str) else ",".join(names)


def dump_layer(value: object) -> str:
    """Operators to dump: ``"conv1 conv2"`` with blanks between, or a list of names.

    Raises:
        ValueError: For a comma too: no operator name has one, it would be taken into the name.
    """
    example = "conv1 conv2"
    names = re.findall(_NO_BLANKS, value) if isinstance(value, str) else _listed(value, example)
    if not names:
        raise refused(value, "it names no operator", example)
    for name in names:
        if "," in name:
            wrong = f"{name!r} has a comma in it, and names are separated with blanks"
            raise refused(value, wrong, example)
        if not name or has_blank(name):
            raise refused(value, f"{name!r} is no operator name", ["conv1", "conv2"])
    return value if isinstance(value, str) else " ".join(names)


def _listed(value: object, example: str) -> List[str]:
    names = [name for name in value if isinstance(name, str)] if is_list(value) else []
    if not is_list(value) or len(names) < len(value):
        raise wrong_type(value, "text, a list of names", example)
    if not names:
        raise refused(value, "it has no name in it", example)
    return names


def aicore_num(value: object) -> str:
    """Upper limit of cube and vector cores: ``"24|48"``, or a (cube, vector) pair.

    Chips without vector cores take ``"24|"`` or ``(24, None)``. GE wants plain decimals above 0,
    without leading zeros or blanks, and only warns when the ``|`` is missing.
    """
    text = value if isinstance(value, str) else _cores_text(value)
    cube, bar, vector = text.partition("|")
    if not bar:
        wrong = "the '|' between cube and vector cores is missing ('24|' where there is no vector)"
        raise refused(value, wrong, "24|48")
    for part in [cube, vector] if vector else [cube]:
        if whole(part, 1, INT32_MAX) is None or part.startswith("0"):
            wrong = f"{part!r} is no number of cores (decimal above 0, no leading 0, no blank)"
            raise refused(value, wrong, "24|48")
    return text


def _cores_text(value: object) -> str:
    if is_list(value) and len(value) == 2:
        cube, vector = value
        if is_whole(cube) and (vector is None or is_whole(vector)):
            return f"{cube}|{'' if vector is None else vector}"
    raise wrong_type(value, "text, a (cube, vector) pair of ints", "24|48")


def memory_size(value: object) -> str:
    """A size in bytes, above 0: an int or decimal text."""
    if not isinstance(value, str) and not is_whole(value):
        raise wrong_type(value, "a number of bytes, as an int or as decimal text", 2**30)
    text = value if isinstance(value, str) else str(value)
    if whole(text, 1, _MOST_BYTES) is None:
        raise refused(value, "a number of bytes above 0 is needed, in digits only", str(2**30))
    return text


def path_text(value: object) -> str:
    """A path as text: str or any os.PathLike.

    Raises:
        ValueError: For an empty path, one with a NUL character or a name that is not UTF-8 text
            (the adapter gets its options as UTF-8), and bytes.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise wrong_type(path, "text, os.PathLike", "dump/step0")
    if not path:
        raise refused(value, "it is empty (leave the option out to use the default)", "dump/step0")
    if "\0" in path:
        raise refused(value, "a path has no NUL character in it", "dump/step0")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise refused(value, "it is not UTF-8 text (half a surrogate pair)", "dump/step0") from None
    return path


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
    """Read the ``name:value`` items of ``text``, each name once."""
    items: List[Tuple[str, str]] = []
    for item in text.split(separator):
        name, colon, state = item.partition(":")
        if not name or not colon or has_blank(name):
            wrong = f"{item!r} is no item of the form name:value" if text else "it is empty"
            raise refused(given, wrong, example)
        if name in (known for known, _ in items):
            raise refused(given, f"{name!r} is named twice", example)
        items.append((name, state))
    return items


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


_ACCELERATE_EXAMPLE = "fast|step|0.9"
_ACCELERATE_FORMS = "text, (kind, trigger), (kind, trigger, ratio), a mapping with these names"
_ACCELERATE_FIELDS = ("kind", "trigger", "ratio")
_KINDS = ("fast", "fast1")
_LIMITS = {"step": ("0.2", "0.9"), "loss": ("1.01", "1.5")}
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_LONGEST_RATIO = 31  # safe_strtof refuses 32 characters and more


def accelerate_train_mode(value: object) -> str:
    """Low precision for the first part of training: ``"fast|step|0.9"``, a tuple or a mapping.

    kind is fast (float16) or fast1 (bfloat16), trigger step or loss. The ratio may be missing or
    empty (0.9 for step, 1.05 for loss); limits, inclusive: step 0.2..0.9, loss 1.01..1.5.
    """
    text = value if isinstance(value, str) else _mode_text(value)
    fields = text.split("|")
    if len(fields) not in (2, 3):
        wrong = f"it has {len(fields)} fields and must have two or three, with '|' between"
        raise refused(value, wrong, _ACCELERATE_EXAMPLE)
    if fields[0] not in _KINDS:
        wrong = f"the first field is {fields[0]!r} and must be 'fast' or 'fast1'"
        raise refused(value, wrong, _ACCELERATE_EXAMPLE)
    if fields[1] not in _LIMITS:
        wrong = f"the second field is {fields[1]!r} and must be 'step' or 'loss'"
        raise refused(value, wrong, _ACCELERATE_EXAMPLE)
    if len(fields) == 3 and fields[2]:
        _check_ratio(fields[2], fields[1], value)
    return text


def accelerate_trigger(text: str) -> str:
    """Give what ends the low precision in a legal ``text``: "step" or "loss"."""
    return text.split("|")[1]


def _check_ratio(ratio: str, trigger: str, given: object) -> None:
    low, high = _LIMITS[trigger]
    example = f"fast|{trigger}|{high}"
    if re.fullmatch(_DECIMAL, ratio) is None or len(ratio) > _LONGEST_RATIO:
        wrong = f"the ratio {ratio!r} is no decimal number of at most {_LONGEST_RATIO} characters"
        raise refused(given, wrong, example)
    if not _float32(low) <= _float32(ratio) <= _float32(high):
        wrong = f"the ratio {ratio!r} is outside {low} to {high}, the limits for {trigger!r}"
        raise refused(given, wrong, example)


def _float32(text: str) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        return float("inf")


def _mode_text(value: object) -> str:
    fields: List[object] = []
    if isinstance(value, Mapping) and set(value) <= set(_ACCELERATE_FIELDS):
        fields = [value.get(name) for name in _ACCELERATE_FIELDS]
    elif is_list(value):
        fields = list(value)
    if len(fields) == 3 and fields[2] is None:
        fields = fields[:2]
    texts = [_field_text(field) for field in fields]
    if len(texts) not in (2, 3) or not all(texts):
        raise wrong_type(value, _ACCELERATE_FORMS, ("fast", "step", 0.9))
    return "|".join(texts)


def _field_text(field: object) -> str:
    if isinstance(field, float):
        return repr(float(field))
    if is_whole(field):
        return str(field)
    return field if isinstance(field, str) and "|" not in field else ""


_PAIRS_EXAMPLE = [[["conv1"], ["relu9"]]]
_PAIRS_FORMS = "a list of [inputs, outputs] pairs of name lists, or its str()"
_NOT_IN_NAMES = "[](){},'\"\\:"


def in_out_pair(value: object) -> str:
    """First and last operators of the parts to offload (or not): ``[[["in1"], ["out1"]], ...]``.

    Takes that list, or the text that ``str()`` makes of it. Each pair has exactly two lists of
    operator names, neither empty (the adapter skips other pairs without a word).
    """
    if isinstance(value, str):
        return _checked_text(value)
    if not is_list(value):
        raise wrong_type(value, _PAIRS_FORMS, _PAIRS_EXAMPLE)
    problem = _wrong_pairs(value)
    if problem is not None:
        raise refused(value, problem, _PAIRS_EXAMPLE)
    return _pairs_text(value)


def _checked_text(text: str) -> str:
    if '"' in text:
        wrong = "the adapter takes double quotes into the names, so single quotes are needed"
        raise refused(text, wrong, str(_PAIRS_EXAMPLE))
    if "\\" in text:  # also keeps Python from warning about escapes
        raise refused(text, "an operator name has no backslash", str(_PAIRS_EXAMPLE))
    try:
        pairs: object = ast.literal_eval(text.strip(" \t"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pairs = None
    problem = _wrong_pairs(pairs)
    if problem is None and _squeezed(text) != _squeezed(_pairs_text(pairs)):
        problem = (
            "it is not as str() writes it, and the adapter's parser does not know all of Python"
        )
    if problem is not None:
        raise refused(text, problem, str(_PAIRS_EXAMPLE))
    return text


def _wrong_pairs(pairs: object) -> Optional[str]:
    if not is_list(pairs) or not pairs:
        return "it is no list of [inputs, outputs] pairs"
    for pair in pairs:
        if not is_list(pair) or len(pair) != 2:
            return f"{pair!r} is no pair of two lists, [inputs, outputs]"
        for names in pair:
            if not is_list(names) or not names:
                return f"{names!r} is no list of at least one operator name"
            for name in names:
                if not _is_name(name):
                    return f"{name!r} is no operator name (text, no blank, quote, bracket or colon)"
    return None


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not name or has_blank(name) or not name.isprintable():
        return False
    return not any(character in _NOT_IN_NAMES for character in name)


def _pairs_text(pairs: Any) -> str:
    """The text of checked pairs; tuples become lists, whose brackets the adapter counts."""
    return str([[[str(name) for name in names] for names in pair] for pair in pairs])


def _squeezed(text: str) -> str:
    """``text`` without what the adapter drops."""
    return text.replace(" ", "").replace("\t", "")

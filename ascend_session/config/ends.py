"""For which values of an option GE ends a run on a device.

`AscendConfig` refuses more than the vendor's stack ends: what nothing looks at does not do what it
says. ``ends`` on the line of an option says that GE looks at its values. It ends the run for what
the type of the option refuses, unless a function here says that it takes a value all the same.

The sources are those of GE and of the profiler of August 2026; those of earlier releases are not
public.
"""

import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional


@dataclass(frozen=True)
class Ends:
    """That GE ends the run for a wrong value of an option.

    Attributes:
        source: File and function of the vendor's.
        is_proven: Whether that code was compiled and asked; else it was read.
        takes: Says of a value that the type refuses that GE takes it all the same.
        when: Says of all that the adapter has read, by key, whether GE looks at the value at all.
        empty_too: Whether empty text is looked at; of most options it is as if it were not set.
    """

    source: str
    is_proven: bool = True
    takes: Optional[Callable[[Any], bool]] = None
    when: Optional[Callable[[Mapping[str, Any]], bool]] = None
    empty_too: bool = False

    def covers(self, key: str, values: Mapping[str, Any]) -> bool:
        """Whether GE ends the run for the value of ``key``, which the type refuses.

        Args:
            key: The vendor's key of the option.
            values: What the adapter has read of the entry, by key.
        """
        value = values[key]
        if (value == "" and not self.empty_too) or (self.when and not self.when(values)):
            return False
        return self.takes is None or not self.takes(value)


def while_dumping(values: Mapping[str, Any]) -> bool:
    """Whether data is dumped."""
    return values.get("enable_dump") is True


def while_profiling(values: Mapping[str, Any]) -> bool:
    """Whether profiling is on."""
    return values.get("profiling_mode") is True


def with_dynamic_input(values: Mapping[str, Any]) -> bool:
    """Whether ranges of shapes are parsed (guides/facts/dynamic.md#dynamic-inputs)."""
    is_lazy = values.get("dynamic_graph_execute_mode") == "lazy_recompile"
    return values.get("dynamic_input") is True and not is_lazy


def fits_32_bits(number: int) -> bool:
    """Whether ConvertToInt32 of gelib.cc takes it: a negative time is a time, too."""
    return -(2**31) <= number < 2**31


def takes_core_number(text: str) -> bool:
    """Whether CoreNumUtils takes it; of ``0|`` platform_utils.cc thinks otherwise."""
    return re.fullmatch(r"0|[1-9][0-9]{0,8}|([1-9][0-9]{0,8})?\|[0-9]{0,9}", text) is not None


def takes_stream_numbers(text: str) -> bool:
    """Whether ParseParallelNum takes it: blanks and a comma at the end do no harm."""
    items = re.sub(",$", "", text).split(",")
    found = [re.fullmatch(r"\s*([^:\s]+)\s*:\s*0*[1-9][0-9]{0,8}\s*", item) for item in items]
    names = [each[1] for each in found if each is not None]
    return len(names) == len(items) == len(set(names))


def takes_multistream_mode(text: str) -> bool:
    """Whether ParseAutoMultistreamParallelMode takes it: a number may begin with zeros."""
    mode = r"(Weighted)?LoadBalance:0*([1-9]|[1-5][0-9]|6[0-4])"
    return re.fullmatch(mode, text) is not None


def takes_profiles(text: str) -> bool:
    """Whether the profiles are taken: a semicolon at the end does no harm."""
    return re.fullmatch(r"[0-9]+(,[0-9]+)*(;[0-9]+(,[0-9]+)*)*;", text) is not None


def takes_shape_ranges(text: str) -> bool:
    """Whether ParseInputShapeRange takes it: any whole numbers, in any order."""
    size = r"\s*[+-]?[0-9]{1,18}(~[+-]?[0-9]{1,18})?\s*"
    shape = rf"[^:;\[\]]+:\[(\s*|{size}(,{size})*)\]"
    return re.fullmatch(rf"{shape}([;,]{shape})*", text) is not None

"""What is said of a damaged NpuOptimizer entry, whether it is found in a proto or in a script.

Facts: the adapter reads entries named exactly NpuOptimizer, and of each value one protobuf field;
another field reads as zero without a word (options_notes g1; adapter_behaviour.md).
"""

from typing import Optional, Sequence

from ascend_session.errors import Problem

__all__ = [
    "ENTRY_NAME",
    "OPTIMISES",
    "REMAPPER",
    "is_misnamed",
    "left_on",
    "misnamed_entry",
    "several_entries",
    "wrong_field",
]

ENTRY_NAME = "NpuOptimizer"

OPTIMISES = {
    "memory_optimization": "TensorFlow then changes the graph to save memory before the adapter "
    "gets it, by other orders and by swapping to the host; the adapter's manual and samples turn "
    "it off.",
    "remapping": "TensorFlow then fuses operators into ones that only a CPU or GPU has, before the "
    "adapter gets the graph; the adapter's manual and samples turn it off.",
}
"""What a rewriter option does unless it is turned off."""

# RewriterConfig.OFF, which is MANUAL in the enum of memory_optimization, and that one's own word.
_OFF = {"memory_optimization": (1, 2), "remapping": (2,)}

REMAPPER = "remap"
"""The remapper's name in ``rewrite_options.optimizers``."""

_ZERO = {"s": "''", "i": "0", "b": "False"}


def is_misnamed(name: str) -> bool:
    """Whether ``name`` is meant to be the adapter's and is not."""
    return name != ENTRY_NAME and name.strip().lower().replace("_", "") == ENTRY_NAME.lower()


def misnamed_entry(name: str) -> Problem:
    """What to say about an entry whose name the adapter does not read."""
    return Problem(
        ENTRY_NAME,
        f"The proto has an entry named {name!r}; the adapter reads {ENTRY_NAME!r} only and "
        "ignores this one without a word.",
        f"Rename it to {ENTRY_NAME!r}.",
    )


def several_entries(count: int) -> Problem:
    """What to say about a proto with more than one entry."""
    return Problem(
        ENTRY_NAME,
        f"The proto has {count} entries named {ENTRY_NAME!r}; of each key the last "
        "one wins, and what the last one lacks goes back to defaults.",
        "Keep one entry.",
    )


def wrong_field(key: str, found: Optional[str], right: str) -> Problem:
    """What to say about a value in the field ``found`` (None: in none) instead of ``right``."""
    where = f"stands in the field {found!r}" if found else "is there without a value"
    return Problem(
        key,
        f"{key} {where}; the adapter reads the field {right!r} and finds {_ZERO[right]}.",
        f'Write parameter_map["{key}"].{right} = ...',
    )


def left_on(name: str, value: int, listed: Sequence[str] = ()) -> Optional[str]:
    """What to say of a rewriter option that an NPU session should not have on; None if it is off.

    A list of optimizers stands for all the switches: TensorFlow then runs those alone, and
    ``memory`` as MANUAL (meta_optimizer.cc). NPUEstimator writes such a list.

    Args:
        name: ``memory_optimization`` or ``remapping``.
        value: What it is in the session's proto.
        listed: ``rewrite_options.optimizers`` of that proto.
    """
    if listed:
        is_named = name == "remapping" and REMAPPER in listed
        return (
            f"rewrite_options.optimizers names {REMAPPER!r}. {OPTIMISES[name]}"
            if is_named
            else None
        )
    if value in _OFF[name]:
        return None
    return f"rewrite_options.{name} is not turned off. {OPTIMISES[name]}"

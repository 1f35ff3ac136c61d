"""What an offloaded run refuses before the device computes: when it starts, when its graph is
compiled, and when it makes the GE session.

Source: geop_npu.cc, ComputeAsync, CompileGraph and CreateGeSession, in this order;
guides/facts/options.md.
"""

from typing import Any, Dict, Optional

from fake_ge import profiler
from fake_ge.acceleration import check_acceleration
from fake_ge.entry import Entry
from fake_ge.environment import collection_path, profiling
from fake_ge.fatal import internal_error, invalid_argument
from fake_ge.messages import nested, said

__all__ = ["check_run", "check_session"]

_PROFILES = ("input_shape", "dynamic_dims", "dynamic_node_type")


def check_run(entry: Entry, options: Dict[str, Any], compiled: bool) -> None:
    """Refuses a run.

    Args:
        entry: The options of the session.
        options: What GE is initialised with.
        compiled: Whether the graph ran before.

    Raises:
        InvalidArgumentError: Of TensorFlow.
        InternalError: Of TensorFlow.
    """
    # guides/facts/dumps.md#profiling: excludes profiler.Profiler
    if profiler.is_enabled() and profiling(options) is not None:
        raise invalid_argument(
            "The option 'profiling_mode' or env variables 'PROFILING_MODE' cannot be set to true "
            "when using 'profiler.Profiler'."
        )
    if entry.said.get("compile_dynamic_mode"):
        # guides/facts/dynamic.md#dynamic-inputs
        if entry.get("dynamic_input"):
            raise internal_error(
                "Option compile_dynamic_mode cannot set when set dynamic_input to 1."
            )
        # guides/facts/dynamic.md#dynamic-profiles; geop_npu.cc, ComputeAsync
        if all(entry.said.get(key) not in (None, "") for key in _PROFILES):
            raise internal_error(
                "Option compile_dynamic_mode cannot set when set input_shape, dynamic_dims and "
                "dynamic_node_type."
            )
    # guides/facts/precision.md#accelerated-training: what is unreadable later is only logged
    if not compiled:
        check_acceleration(entry, options)


def check_session(entry: Entry, name: str) -> None:
    """Refuses to make a GE session.

    Args:
        entry: Its options.
        name: Of the ``tf.Session``.

    Raises:
        InternalError: Of TensorFlow.
    """
    # guides/facts/dumps.md#data-dump: GE refuses both when it sets up the dump of a session:
    # inner_session.cc, Initialize; dump_properties.cc, InitByOptions. The adapter has a session
    # then, and is told by the first graph that it adds (geop_npu.cc, AddGraph).
    if entry.get("enable_dump") and entry.get("enable_dump_debug"):
        reason = (
            "ge.exec.enableDump and ge.exec.enableDumpDebug cannot be set to 1 at the same time"
        )
        raise _not_added(name, nested("E10001", reason))
    # guides/facts/dumps.md#data-dump: NPU_COLLECT_PATH excludes oom. Manual,
    # "NPU_COLLECT_PATH" (envref_07_0129): what is compiled so reports an error when it is used.
    if collection_path() and "oom" in _debug_items(entry.get("op_debug_config")):
        raise _not_added(name, nested("EZ9999", "oom is on while NPU_COLLECT_PATH is set"))


def _not_added(name: str, message: str) -> Any:
    text = f"[GEOP] call ge session add graph failed, kernel: GeOp1_0, tf session: {name}"
    return internal_error(said(f"{text}, graph id: 1", message))


def _debug_items(path: Optional[str]) -> Any:
    # guides/facts/option_files.md#op_debug_config: comments with '#', and the last line counts
    found = ""
    try:
        with open(path or "", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition("#")[0].partition("=")
                found = value if key.strip() == "op_debug_config" else found
    except OSError:
        return ()
    return [item.strip() for item in found.split(",")]

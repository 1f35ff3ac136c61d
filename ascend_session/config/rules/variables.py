"""Host rules about environment variables that override, contradict or break options."""

import json
import os
from typing import Optional, Tuple

from ascend_session.config.ends import ENTRY, GE, OFFLOAD, RUN_CONFIG, Ends
from ascend_session.config.grammars.profiling_options import profiling_members
from ascend_session.config.hccl_variables import check_hccl_variables
from ascend_session.config.rules.accuracy import DUMPS
from ascend_session.config.rules.dynamic import PROFILE_PART
from ascend_session.config.rules.paths import tuning_mode
from ascend_session.config.rules.rule import (
    FlatOptions,
    RuleBook,
    RuleFindings,
    error,
    no_effect,
    source,
    warning,
)
from ascend_session.config.tuning import MODES
from ascend_session.spelling import option
from ascend_session.vendor import EXECUTION_SECONDS, parse_seconds, read_int64

RULES = RuleBook()


_SIZES = ("RANK_SIZE", "CM_WORKER_SIZE")


def _job_size(entry: FlatOptions) -> int:
    given = (entry.environ.get(name) for name in _SIZES)
    return read_int64(next(filter(None, given), None)) or 1


_DEVICE = ("ASCEND_DEVICE_ID", "DEVICE_ID")


def _device_variable(entry: FlatOptions) -> Tuple[str, Optional[str], Optional[int]]:
    """Return the variable that counts, its text, and the number that the adapter reads."""
    name = next(filter(entry.environ.get, _DEVICE), _DEVICE[1])
    return name, entry.environ.get(name), read_int64(entry.environ.get(name))


@RULES.add("session_device_id", ends=(Ends(OFFLOAD),))
@source("guides/facts/process.md#the-device-of-a-process; npu_attrs.cc GetEnvDeviceID")
def device_variables(entry: FlatOptions) -> RuleFindings:
    """ASCEND_DEVICE_ID, else DEVICE_ID, is a whole number of 0 or more."""
    name, text, number = _device_variable(entry)
    if text and (number is None or number < 0):
        yield error(
            f"{name}={text!r} is not a whole number of 0 or more; the adapter aborts the process.",
            f"export {name}=0, or unset it.",
            option=name,
        )


@RULES.add("session_device_id")
@source("guides/facts/process.md#the-device-of-a-process; npu_attrs.cc GetEnvDeviceID")
def device_variables_of_32_bits(entry: FlatOptions) -> RuleFindings:
    """The adapter reads 32 bits of ASCEND_DEVICE_ID, else of DEVICE_ID."""
    name, text, number = _device_variable(entry)
    if number is not None and number >= 2**32:
        yield error(
            f"{name}={text!r} does not fit into 32 bits; the adapter reads it as {number % 2**32}.",
            f"export {name}={number % 2**32}, if that is meant.",
            option=name,
        )


@RULES.add("aoe_mode", ends=(Ends(ENTRY),))
@source("guides/facts/aoe.md#aoe-tuning; npu_attrs.cc CheckAoeMode")
def tuning_variable(entry: FlatOptions) -> RuleFindings:
    """AOE_MODE is 1, 2 or 4; it is read when aoe_mode is not given."""
    mode = entry.environ.get("AOE_MODE")
    if not mode:
        return
    if "aoe_mode" in entry:
        if entry["aoe_mode"] != mode:
            aoe_mode = option("aoe_mode", entry["aoe_mode"])
            yield warning(f"{aoe_mode} takes precedence over AOE_MODE={mode}.")
    elif mode not in MODES.values():
        yield error(
            f"AOE_MODE={mode!r} is not 1, 2 or 4; every session fails with it.", option="AOE_MODE"
        )


@RULES.add("aoe_mode", "static_memory_policy", "profiling_mode", "dynamic_dims")
@source("guides/facts/aoe.md#aoe-tuning; manual of AOE, Subgraph/Operator Tuning")
def tuning_by_variable(entry: FlatOptions) -> RuleFindings:
    """The conditions of AOE tuning hold for AOE_MODE and PROFILING_MODE as well."""
    mode = tuning_mode(entry)
    if mode is None:
        return
    if "aoe_mode" not in entry and entry.get("static_memory_policy", 0) != 0:
        yield error(
            f"static_memory_policy must be 0 with AOE_MODE={mode}.", option="static_memory_policy"
        )
    if "aoe_mode" not in entry and "dynamic_dims" in entry:
        yield error(
            f"dynamic_dims cannot be used with AOE_MODE={mode}: AOE tunes static shapes only, and "
            "the run fails.",
            f"Leave the {PROFILE_PART} out for the tuning run.",
            option="dynamic_dims",
        )
    by_variable = entry.environ.get("PROFILING_MODE") == "true"
    by_option = "aoe_mode" not in entry and entry.is_on("profiling_mode")
    if by_variable or by_option:
        switches = ["PROFILING_MODE=true"] * by_variable
        switches += [option("enable_profiling", True)] * by_option
        yield error(
            f"{' and '.join(switches)} cannot be used while AOE tunes (mode {mode}).",
            "Turn profiling off for the tuning run.",
            option="profiling_mode",
        )
    if _job_size(entry) > 1 and mode in ("1", "2"):
        yield warning(f"AOE mode {mode} tunes on one device; this job has several.")


@RULES.add(*DUMPS, "enable_exception_dump")
@source("guides/facts/dumps.md#data-dump")
def collection_suppresses_dumps(entry: FlatOptions) -> RuleFindings:
    """NPU_COLLECT_PATH forces the full exception dump and suppresses all other dumps."""
    path = entry.environ.get("NPU_COLLECT_PATH")
    if not path:
        return
    for switch in DUMPS:
        if entry.is_on(switch):
            yield no_effect(
                f"{option(switch, True)} has no effect while NPU_COLLECT_PATH is set.",
                option=switch,
            )
    if entry.get("enable_exception_dump", 1) != 1:
        yield no_effect(
            f"{option('enable_exception_dump', entry['enable_exception_dump'])} becomes 1 while "
            "NPU_COLLECT_PATH is set.",
            option="enable_exception_dump",
        )


@RULES.add("profiling_mode")
@source("guides/facts/dumps.md#profiling")
def profiling_variable(entry: FlatOptions) -> RuleFindings:
    """PROFILING_MODE=true profiles even with enable_profiling=False."""
    mode = entry.environ.get("PROFILING_MODE")
    if mode == "true" and entry.get("profiling_mode") is False:
        yield no_effect(
            f"{option('enable_profiling', False)} has no effect: PROFILING_MODE=true is set."
        )
    if mode and mode not in ("true", "false"):
        yield warning(
            f"PROFILING_MODE={mode!r} leaves profiling off; only 'true' turns it on.",
            option="PROFILING_MODE",
        )


@RULES.add("profiling_options", "profiling_mode", ends=(Ends(GE),))
@source("guides/facts/dumps.md#profiling")
def profiling_options_variable(entry: FlatOptions) -> RuleFindings:
    """PROFILING_OPTIONS is legal where GE reads it: with PROFILING_MODE=true and no option."""
    text = entry.environ.get("PROFILING_OPTIONS")
    is_read = entry.environ.get("PROFILING_MODE") == "true" and not entry.is_on("profiling_mode")
    if not text or not is_read:
        return
    try:
        profiling_members(text)
    except ValueError as problem:
        yield error(
            f"PROFILING_OPTIONS, which PROFILING_MODE=true puts to use: {problem} GE refuses it, "
            "and the adapter aborts the process.",
            option="PROFILING_OPTIONS",
        )


@RULES.add("static_memory_policy")
@source("guides/facts/options.md#memory")
def one_static_memory_setting(entry: FlatOptions) -> RuleFindings:
    """static_memory_policy and GE_USE_STATIC_MEMORY exclude each other."""
    value = entry.environ.get("GE_USE_STATIC_MEMORY")
    if value and "static_memory_policy" in entry:
        yield error(
            f"{option('static_memory_policy', entry['static_memory_policy'])} and "
            f"GE_USE_STATIC_MEMORY={value} are both set; GE mixes them.",
            "unset GE_USE_STATIC_MEMORY",
        )


@RULES.add("stream_sync_timeout", "hccl_timeout")
@source("guides/facts/options.md#time-limits; manual, NPURunConfig Options")
def stream_sync_in_a_cluster(entry: FlatOptions) -> RuleFindings:
    """With several ranks stream_sync_timeout (ms) exceeds HCCL_EXEC_TIMEOUT (s), or is -1."""
    stream = entry.get("stream_sync_timeout", -1)
    text = entry.environ.get("HCCL_EXEC_TIMEOUT", "")
    hccl: float = EXECUTION_SECONDS
    origin = f"the {hccl} s that collectives wait by default"
    if "hccl_timeout" in entry or parse_seconds(text) is not None:
        hccl = entry.get("hccl_timeout", parse_seconds(text))
        origin = f"HCCL_EXEC_TIMEOUT={text}"
        if "hccl_timeout" in entry:
            origin = option("hccl_timeout", hccl)
        origin += " s" if hccl else ", which never ends"
    if _job_size(entry) > 1 and stream > 0 and (hccl == 0 or stream <= hccl * 1000):
        yield error(
            f"{option('stream_sync_timeout', stream)} ms is not longer than {origin}, and this "
            f"process belongs to a job of {_job_size(entry)}.",
            f"Set stream_sync_timeout above {int(hccl * 1000)}, or to -1."
            if hccl
            else "Set it to -1.",
        )


@RULES.add("hccl_timeout")
@source("guides/facts/options.md#time-limits")
def one_collective_timeout(entry: FlatOptions) -> RuleFindings:
    """hccl_timeout takes precedence over HCCL_EXEC_TIMEOUT."""
    variable = entry.environ.get("HCCL_EXEC_TIMEOUT")
    if variable and "hccl_timeout" in entry and parse_seconds(variable) != entry["hccl_timeout"]:
        yield warning(
            f"{option('hccl_timeout', entry['hccl_timeout'])} takes precedence over "
            f"HCCL_EXEC_TIMEOUT={variable}."
        )


@RULES.add("deterministic")
@source("guides/facts/options.md#determinism")
def one_deterministic_setting(entry: FlatOptions) -> RuleFindings:
    """HCCL_DETERMINISTIC takes precedence over deterministic for collectives."""
    variable = entry.environ.get("HCCL_DETERMINISTIC")
    if variable and "deterministic" in entry:
        yield warning(
            f"HCCL_DETERMINISTIC={variable} takes precedence over "
            f"{option('deterministic', entry['deterministic'])} for collectives."
        )


@RULES.add("auto_multistream_parallel_mode", "compile_dynamic_mode", "dynamic_input")
@source("guides/facts/dynamic.md#dynamic-graphs")
def dynamic_multistream(entry: FlatOptions) -> RuleFindings:
    """In dynamic graphs auto_multistream_parallel_mode needs a variable of its own."""
    enabled = entry.environ.get("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM") == "1"
    dynamic = entry.is_on("compile_dynamic_mode") or entry.is_on("dynamic_input")
    if "auto_multistream_parallel_mode" in entry and dynamic and not enabled:
        yield no_effect(
            "auto_multistream_parallel_mode has no effect in dynamic graphs unless "
            "ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=1."
        )


@RULES.add("distribute", ends=(Ends(RUN_CONFIG),))
@source("guides/facts/options.md#parameter-servers; npu_config.py")
def parameter_servers_need_a_cluster(entry: FlatOptions) -> RuleFindings:
    """A parameter-server job (distribute) needs a cluster in TF_CONFIG."""
    if "distribute" in entry and not _has_cluster(entry.environ.get("TF_CONFIG", "")):
        yield error(
            "distribute is given, but TF_CONFIG names no cluster; NPURunConfig refuses that."
        )


def _has_cluster(text: str) -> bool:
    try:
        config = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(config, dict) and bool(config.get("cluster"))


@RULES.add("is_tailing_optimization")
@source("guides/facts/options.md#tailing-optimization; manual, NPURunConfig Options")
def tailing_needs_a_cluster(entry: FlatOptions) -> RuleFindings:
    """is_tailing_optimization is for distributed training."""
    if entry.is_on("is_tailing_optimization") and _job_size(entry) == 1:
        yield no_effect(
            f"{option('is_tailing_optimization', True)} has no effect in a job of one process."
        )


@RULES.add("aoe_mode")
@source("guides/facts/aoe.md#aoe-tuning; manual of AOE, Subgraph/Operator Tuning")
def tuning_bank(entry: FlatOptions) -> RuleFindings:
    """While AOE tunes, TUNE_BANK_PATH is an existing folder."""
    path = entry.environ.get("TUNE_BANK_PATH")
    if path and tuning_mode(entry) is not None and not os.path.isdir(path):
        yield error(
            f"TUNE_BANK_PATH={path!r} is not an existing folder; the tuning fails.",
            f"mkdir -p {path}",
            option="TUNE_BANK_PATH",
        )


@RULES.add("hccl_timeout")
@source("guides/facts/launch.md#hccl-variables")
def variables_of_hccl(entry: FlatOptions) -> RuleFindings:
    """HCCL takes the value of each of its variables."""
    return check_hccl_variables(entry.environ)

"""Rules about numeric precision, and about dumps and debugging files."""

from ascend_session.config.ends import ENTRY, GE, OFFLOAD, AdapterView, Ends
from ascend_session.config.grammars.accelerate import accelerate_trigger
from ascend_session.config.rules.rule import (
    FlatOptions,
    RuleBook,
    RuleFindings,
    error,
    no_effect,
    source,
    warning,
)
from ascend_session.spelling import code, option
from ascend_session.text import join_words

RULES = RuleBook()

MIXED = ("allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16")
MIXED_V2 = ("mixed_float16", "mixed_bfloat16", "mixed_hif8")
_PRECISION_MODES = ("precision_mode", "precision_mode_v2")
_FULL = ("must_keep_origin_dtype", "allow_fp32_to_fp16")
DUMPS = ("enable_dump", "enable_dump_debug")


@RULES.add(*_PRECISION_MODES, ends=(Ends(ENTRY), Ends(GE)))
@source("guides/facts/precision.md#precision-modes; npu_attrs.cc")
def one_precision_mode(entry: FlatOptions) -> RuleFindings:
    """precision_mode and precision_mode_v2 exclude each other, whatever their values."""
    if "precision_mode" in entry and "precision_mode_v2" in entry:
        yield error(
            f"{entry.text('precision_mode')} and {entry.text('precision_mode_v2')} exclude each "
            "other; the adapter fails on both.",
            "Keep precision_mode, which every release reads.",
        )


@RULES.add("modify_mixlist", *_PRECISION_MODES, ends=(Ends(ENTRY), Ends(GE)))
@source("guides/facts/precision.md#precision-modes; npu_attrs.cc")
def mixlist_needs_mixed_precision(entry: FlatOptions) -> RuleFindings:
    """modify_mixlist needs a mixed-precision mode; precision_mode is looked at first."""
    if "modify_mixlist" not in entry:
        return
    mode, mode_v2 = entry.get("precision_mode"), entry.get("precision_mode_v2")
    if (mode in MIXED) if mode is not None else (mode_v2 in MIXED_V2):
        return
    reason = "no precision mode is given"
    if mode or mode_v2:
        text = option("precision_mode", mode) if mode else option("precision_mode_v2", mode_v2)
        reason = f"{text} is not mixed"
    yield error(
        f"{entry.text('modify_mixlist')} edits the lists of mixed precision, but {reason}.",
        f"Set {option('precision_mode', 'allow_mix_precision')} (or another mixed mode), or drop "
        "modify_mixlist.",
    )


@RULES.add("customize_dtypes", *_PRECISION_MODES)
@source("guides/facts/precision.md#dtypes-of-single-operators; manual, NPURunConfig Options")
def customize_dtypes_without_effect(entry: FlatOptions) -> RuleFindings:
    """customize_dtypes does nothing while the original dtypes are kept."""
    kept = (
        entry.get("precision_mode") == "must_keep_origin_dtype"
        or entry.get("precision_mode_v2") == "origin"
    )
    if "customize_dtypes" in entry and kept:
        yield no_effect(
            f"{entry.text('customize_dtypes')} has no effect while the precision "
            "mode keeps the original dtypes."
        )


def _accelerates_low_precision(view: AdapterView) -> bool:
    """Return whether there is nothing to accelerate; precision_mode_v2 counts first."""
    if not view.entry.get("experimental_accelerate_train_mode"):
        return False
    if "precision_mode_v2" in view.entry:
        return bool(view.entry["precision_mode_v2"] != "origin")
    return view.entry.get("precision_mode", _FULL[0]) not in _FULL


@RULES.add(
    "experimental_accelerate_train_mode",
    *_PRECISION_MODES,
    ends=(
        Ends(
            OFFLOAD,
            "geop_npu.cc, CheckAndModifyPrecisionMode",
            fails=_accelerates_low_precision,
            wants="it needs a precision mode that leaves something to accelerate",
        ),
    ),
)
@source(
    "guides/facts/precision.md#accelerated-training; "
    "geop_npu.cc CheckAndModifyPrecisionMode; manual, ExperimentalConfig Constructor"
)
def accelerated_training_starts_from_full_precision(entry: FlatOptions) -> RuleFindings:
    """accelerate_train_mode needs a precision mode that leaves something to accelerate."""
    if "experimental_accelerate_train_mode" not in entry:
        return
    mode, mode_v2 = entry.get("precision_mode"), entry.get("precision_mode_v2")
    text = option("accelerate_train_mode", entry["experimental_accelerate_train_mode"])
    if mode_v2 not in (None, "origin"):
        yield error(
            f"{text} cannot be used with {option('precision_mode_v2', mode_v2)}.",
            f"Set {option('precision_mode_v2', 'origin')} or leave it out.",
            option="accelerate_train_mode",
        )
    elif mode not in (None, *_FULL):
        yield error(
            f"{text} cannot be used with {option('precision_mode', mode)}.",
            "Set precision_mode to 'allow_fp32_to_fp16' or 'must_keep_origin_dtype', "
            "or leave it out.",
            option="accelerate_train_mode",
        )


@RULES.add("experimental_accelerate_train_mode", "iterations_per_loop")
@source(
    "guides/facts/precision.md#accelerated-training; manual, ExperimentalConfig Constructor, note 4"
)
def accelerated_training_switches_between_loops(entry: FlatOptions) -> RuleFindings:
    """accelerate_train_mode with iterations_per_loop > 1 switches over at an inexact point."""
    loops = entry.get("iterations_per_loop", 1)
    if "experimental_accelerate_train_mode" in entry and loops > 1:
        trigger = accelerate_trigger(entry["experimental_accelerate_train_mode"])
        yield warning(
            f"accelerate_train_mode with {option('iterations_per_loop', loops)} looks at the "
            f"{trigger} only once every {loops} steps, so the switch to full precision is inexact.",
            option="accelerate_train_mode",
        )


@RULES.add("op_select_implmode", "op_precision_mode", "optypelist_for_implmode")
@source("guides/facts/precision.md#implementation-modes; manual, NPURunConfig Options")
def op_precision_mode_wins(entry: FlatOptions) -> RuleFindings:
    """op_precision_mode makes op_select_implmode and optypelist_for_implmode ineffective."""
    if "op_precision_mode" in entry and "op_select_implmode" in entry:
        yield no_effect(
            f"{entry.text('op_select_implmode')} has no effect: op_precision_mode takes precedence."
        )


@RULES.add("optypelist_for_implmode", "op_select_implmode", ends=(Ends(ENTRY),))
@source(
    "guides/facts/precision.md#implementation-modes; "
    "npu_attrs.cc; manual of ATC, --op_select_implmode"
)
def optypelist_needs_a_mode(entry: FlatOptions) -> RuleFindings:
    """optypelist_for_implmode needs op_select_implmode, and not one of the *_for_all modes."""
    if "optypelist_for_implmode" not in entry:
        return
    mode = entry.get("op_select_implmode")
    text = entry.text("optypelist_for_implmode")
    if mode is None:
        yield error(
            f"{text} needs op_select_implmode; the adapter aborts the process without it.",
            f"Add {option('op_select_implmode', 'high_precision')} or 'high_performance'.",
        )
    elif mode.endswith("_for_all"):
        yield no_effect(
            f"{text} has no effect with {option('op_select_implmode', mode)}, which is for all "
            "operators."
        )


_TYPES_IN_MANUAL = ("Pooling", "SoftmaxV2", "LRN", "ROIAlign")


@RULES.add("optypelist_for_implmode")
@source("guides/facts/precision.md#implementation-modes; manual, NPURunConfig Options")
def optypelist_beyond_the_manual(entry: FlatOptions) -> RuleFindings:
    """The manual names Pooling, SoftmaxV2, LRN and ROIAlign for optypelist_for_implmode."""
    named = str(entry.get("optypelist_for_implmode", "")).split(",")
    others = [n for n in named if n and n not in _TYPES_IN_MANUAL]
    if others:
        yield warning(
            f"optypelist_for_implmode names {', '.join(others)}; the manual supports "
            f"{join_words(_TYPES_IN_MANUAL)}."
        )


def _dumps_nowhere(view: AdapterView) -> bool:
    """Return whether CheckPath of npu_attrs.cc misses a required path."""
    return any(map(view.is_on, DUMPS)) and "dump_path" not in view.entry


@RULES.add(
    "dump_path",
    *DUMPS,
    ends=(Ends(ENTRY, fails=_dumps_nowhere, wants="each entry needs it while dumping"),),
)
@source("guides/facts/dumps.md#data-dump; npu_attrs.cc; manual, initialize_system")
def dump_needs_a_path(entry: FlatOptions) -> RuleFindings:
    """enable_dump and enable_dump_debug need dump_path."""
    switch = next((k for k in DUMPS if entry.is_on(k)), None)
    if switch and "dump_path" not in entry:
        in_python = f'DumpConfig({switch}=True, dump_path="...")'
        in_file = f'dump_config: {{{switch}: true, dump_path: "..."}}'
        yield error(
            f"{option(switch, True)} needs dump_path, an existing folder that you may read and "
            "write.",
            f"Write {code(in_python, in_file)}.",
        )


@RULES.add("enable_dump_debug", "enable_dump", ends=(Ends(GE),))
@source("guides/facts/dumps.md#data-dump; GE E10001")
def one_kind_of_dump(entry: FlatOptions) -> RuleFindings:
    """enable_dump and enable_dump_debug exclude each other."""
    if entry.is_on("enable_dump") and entry.is_on("enable_dump_debug"):
        yield error(
            f"{option('enable_dump', True)} and {option('enable_dump_debug', True)} exclude each "
            "other; GE fails on both.",
            "Dump data (enable_dump) or look for overflow (enable_dump_debug), one at a time.",
        )


_SWITCHES_OF_DUMP = {
    "dump_step": ("enable_dump",),
    "dump_mode": ("enable_dump",),
    "dump_debug_mode": ("enable_dump_debug",),
    "dump_path": DUMPS,
}


@RULES.add(*_SWITCHES_OF_DUMP, *DUMPS)
@source("guides/facts/dumps.md#data-dump; npu_attrs.cc")
def dump_details_need_their_switch(entry: FlatOptions) -> RuleFindings:
    """dump_step, dump_mode, dump_debug_mode and dump_path are read with their switches only."""
    for detail, switches in _SWITCHES_OF_DUMP.items():
        if detail in entry and not any(map(entry.is_on, switches)):
            needed = " or ".join(option(switch, True) for switch in switches)
            yield no_effect(
                f"{entry.text(detail)} has no effect: it is read with {needed}.", option=detail
            )


@RULES.add("enable_exception_dump", *DUMPS)
@source("guides/facts/dumps.md#exception-dump")
def exception_dump_beside_dump(entry: FlatOptions) -> RuleFindings:
    """enable_exception_dump=1 suppresses the other dumps on dynamic-shape graphs."""
    if entry.get("enable_exception_dump") == 1 and any(map(entry.is_on, DUMPS)):
        yield warning(
            f"{option('enable_exception_dump', 1)} together with a dump: on dynamic-shape graphs "
            "only the exception dump is written."
        )


@RULES.add("op_compiler_cache_mode", "op_debug_level", "op_debug_config")
@source("guides/facts/dumps.md#operator-debugging")
def debugging_disables_the_compile_cache(entry: FlatOptions) -> RuleFindings:
    """A non-zero op_debug_level disables the operator compile cache."""
    level = entry.get("op_debug_level", 0)
    mode = entry.get("op_compiler_cache_mode", "disable")
    if level != 0 and mode != "disable":
        yield no_effect(
            f"{option('op_compiler_cache_mode', mode)} has no effect with "
            f"{option('op_debug_level', level)}."
        )


@RULES.add("op_debug_level")
@source("guides/facts/dumps.md#operator-debugging; manual, initialize_system")
def debug_level_slows_training(entry: FlatOptions) -> RuleFindings:
    """op_debug_level 1 and 2 are for finding faults; train with 0 or 3."""
    level = entry.get("op_debug_level")
    if level in (1, 2) and entry.get("graph_run_mode", 1) == 1:
        yield warning(
            f"{option('op_debug_level', level)} slows training down; the manual advises 0 or 3 for "
            "training."
        )


@RULES.add("quant_dumpable", "enable_dump")
@source("guides/facts/dumps.md#data-dump; manual, NPURunConfig Options")
def quant_dump_needs_dump(entry: FlatOptions) -> RuleFindings:
    """quant_dumpable='1' matters only while data is dumped."""
    if entry.get("quant_dumpable") == "1" and not entry.is_on("enable_dump"):
        yield no_effect(
            f"{option('quant_dumpable', '1')} has no effect without {option('enable_dump', True)}."
        )


@RULES.add("debug_dir", "op_debug_level", "op_debug_config")
@source("guides/facts/dumps.md#operator-debugging")
def debug_directory_needs_debugging(entry: FlatOptions) -> RuleFindings:
    """debug_dir is used only while op_debug_level or op_debug_config keeps debug files."""
    keeps = entry.get("op_debug_level", 0) != 0 or "op_debug_config" in entry
    if "debug_dir" in entry and not keeps:
        yield no_effect(
            f"{entry.text('debug_dir')} has no effect: no debug files are kept without "
            "op_debug_config or op_debug_level."
        )

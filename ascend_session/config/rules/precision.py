"""Rules about numeric precision: modes, mixed-precision lists, faster first steps."""

from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Findings, RuleBook, error, warning
from ascend_session.config.values import accelerate_trigger

__all__ = ["MIXED", "MIXED_V2", "RULES"]

RULES = RuleBook()

MIXED = ("allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16")
MIXED_V2 = ("mixed_float16", "mixed_bfloat16", "mixed_hif8")


@RULES.add("precision_mode", "precision_mode_v2", source="options_notes a1; npu_attrs.cc")
def one_precision_mode(entry: Entry) -> Findings:
    """precision_mode and precision_mode_v2 exclude each other, whatever their values."""
    if "precision_mode" in entry and "precision_mode_v2" in entry:
        yield error(
            "precision_mode",
            f"{entry.said('precision_mode')} and {entry.said('precision_mode_v2')} exclude each "
            "other; the adapter fails on both.",
            "Keep precision_mode_v2.",
        )


@RULES.add(
    "modify_mixlist",
    "precision_mode",
    "precision_mode_v2",
    source="options_notes a2; npu_attrs.cc",
)
def mixlist_needs_mixed_precision(entry: Entry) -> Findings:
    """modify_mixlist needs a mixed-precision mode; precision_mode is looked at first."""
    if "modify_mixlist" not in entry:
        return
    mode, mode_v2 = entry.get("precision_mode"), entry.get("precision_mode_v2")
    if (mode in MIXED) if mode is not None else (mode_v2 in MIXED_V2):
        return
    found = "no precision mode is given"
    if mode or mode_v2:
        said = f"precision_mode={mode!r}" if mode else f"precision_mode_v2={mode_v2!r}"
        found = f"{said} is not mixed"
    yield error(
        "modify_mixlist",
        f"{entry.said('modify_mixlist')} edits the lists of mixed precision, but {found}.",
        "Set precision_mode_v2='mixed_float16' (or another mixed mode), or drop modify_mixlist.",
    )


@RULES.add(
    "customize_dtypes", "precision_mode", "precision_mode_v2", source="options_notes a3; seed 000"
)
def customize_dtypes_without_effect(entry: Entry) -> Findings:
    """customize_dtypes does nothing while the original dtypes are kept."""
    kept = (
        entry.get("precision_mode") == "must_keep_origin_dtype"
        or entry.get("precision_mode_v2") == "origin"
    )
    if "customize_dtypes" in entry and kept:
        yield warning(
            "customize_dtypes",
            f"{entry.said('customize_dtypes')} has no effect while the precision "
            "mode keeps the original dtypes.",
        )


@RULES.add(
    "experimental_accelerate_train_mode",
    "precision_mode",
    "precision_mode_v2",
    source="options_notes a4; geop_npu.cc CheckAndModifyPrecisionMode; seed 001",
)
def accelerated_training_starts_from_full_precision(entry: Entry) -> Findings:
    """accelerate_train_mode needs a precision mode that leaves something to accelerate."""
    if "experimental_accelerate_train_mode" not in entry:
        return
    mode, mode_v2 = entry.get("precision_mode"), entry.get("precision_mode_v2")
    said = f"accelerate_train_mode={entry['experimental_accelerate_train_mode']!r}"
    if mode_v2 not in (None, "origin"):
        yield error(
            "accelerate_train_mode",
            f"{said} cannot be used with precision_mode_v2={mode_v2!r}.",
            "Set precision_mode_v2='origin' or leave it out.",
        )
    elif mode not in (None, "allow_fp32_to_fp16", "must_keep_origin_dtype"):
        yield error(
            "accelerate_train_mode",
            f"{said} cannot be used with precision_mode={mode!r}.",
            "Set precision_mode to 'allow_fp32_to_fp16' or 'must_keep_origin_dtype', "
            "or leave it out.",
        )


@RULES.add(
    "experimental_accelerate_train_mode",
    "iterations_per_loop",
    source="seed 001, note 4; options_notes a6",
)
def accelerated_training_switches_between_loops(entry: Entry) -> Findings:
    """accelerate_train_mode with iterations_per_loop > 1 switches over at an inexact point."""
    loops = entry.get("iterations_per_loop", 1)
    if "experimental_accelerate_train_mode" in entry and loops > 1:
        trigger = accelerate_trigger(entry["experimental_accelerate_train_mode"])
        yield warning(
            "accelerate_train_mode",
            f"accelerate_train_mode with iterations_per_loop={loops} looks at the {trigger} only "
            f"once every {loops} steps, so the switch to full precision is inexact.",
        )


@RULES.add(
    "op_precision_mode",
    "op_select_implmode",
    "optypelist_for_implmode",
    source="options_notes a31; seed 000",
)
def op_precision_mode_wins(entry: Entry) -> Findings:
    """op_precision_mode makes op_select_implmode and optypelist_for_implmode ineffective."""
    if "op_precision_mode" in entry and "op_select_implmode" in entry:
        yield warning(
            "op_select_implmode",
            f"{entry.said('op_select_implmode')} has no effect: "
            "op_precision_mode takes precedence.",
        )


@RULES.add(
    "optypelist_for_implmode",
    "op_select_implmode",
    source="options_notes a29, a30; npu_attrs.cc; seed 004",
)
def optypelist_needs_a_mode(entry: Entry) -> Findings:
    """optypelist_for_implmode needs op_select_implmode, and not one of the *_for_all modes."""
    if "optypelist_for_implmode" not in entry:
        return
    mode = entry.get("op_select_implmode")
    said = entry.said("optypelist_for_implmode")
    if mode is None:
        yield error(
            "optypelist_for_implmode",
            f"{said} needs op_select_implmode; the adapter aborts the process without it.",
            "Add op_select_implmode='high_precision' or 'high_performance'.",
        )
    elif mode.endswith("_for_all"):
        yield warning(
            "optypelist_for_implmode",
            f"{said} has no effect with op_select_implmode={mode!r}, which is for all operators.",
        )


@RULES.add("optypelist_for_implmode", source="seed 000; options.json")
def optypelist_beyond_the_manual(entry: Entry) -> Findings:
    """The manual names Pooling, SoftmaxV2, LRN and ROIAlign for optypelist_for_implmode."""
    named = str(entry.get("optypelist_for_implmode", "")).split(",")
    others = [n for n in named if n and n not in ("Pooling", "SoftmaxV2", "LRN", "ROIAlign")]
    if others:
        yield warning(
            "optypelist_for_implmode",
            f"optypelist_for_implmode names {', '.join(others)}; the manual supports Pooling, "
            "SoftmaxV2, LRN and ROIAlign.",
        )

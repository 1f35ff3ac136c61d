"""Rules about dynamic shapes: profiles, shape ranges, generalisation."""

import re

from ascend_session.config.ends import (
    DYNAMIC_DETAILS,
    ENTRY,
    GE,
    OFFLOAD,
    PROFILE,
    AdapterView,
    Ends,
    to_int32,
)
from ascend_session.config.grammars import shapes
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

RULES = RuleBook()

PROFILE_PART = code("DynamicInputConfig", "dynamic_input_config")


def _has_profiles(entry: FlatOptions) -> bool:
    return all(key in entry for key in PROFILE)


@RULES.add(*PROFILE, ends=(Ends(ENTRY),))
@source("guides/facts/dynamic.md#dynamic-profiles; npu_attrs.cc")
def profile_keys_come_together(entry: FlatOptions) -> RuleFindings:
    """input_shape, dynamic_dims and dynamic_node_type are given all three or not at all."""
    given = [key for key in PROFILE if key in entry]
    if given and len(given) < len(PROFILE):
        missing = [key for key in PROFILE if key not in given]
        yield error(
            f"{', '.join(given)} without {' and '.join(missing)}: the adapter aborts the process "
            "unless all three are there.",
            f"Add {' and '.join(missing)} to the {PROFILE_PART}.",
            option=given[0],
        )


@RULES.add("dynamic_dims", *PROFILE, ends=(Ends(GE),))
@source("guides/facts/dynamic.md#dynamic-profiles")
def profiles_fit_the_shapes(entry: FlatOptions) -> RuleFindings:
    """Each profile of dynamic_dims has one value for each -1 of input_shape."""
    if not _has_profiles(entry):
        return
    inputs = shapes.split_inputs(entry["input_shape"])
    unknown = sum(dims.count("-1") for _, dims in inputs)
    arity = len(shapes.split_profiles(entry["dynamic_dims"])[0])
    if unknown != arity:
        yield error(
            f"{option('dynamic_dims', entry['dynamic_dims'])} gives {arity} value(s) a profile, "
            f"but {option('input_shape', entry['input_shape'])} has -1 in {unknown} place(s).",
            "Give each profile one value for each -1.",
        )


@RULES.add("dynamic_dims")
@source("guides/facts/dynamic.md#dynamic-profiles")
def many_profiles(entry: FlatOptions) -> RuleFindings:
    """Only Ascend 950 takes more than 100 profiles."""
    count = len(shapes.split_profiles(entry.get("dynamic_dims", "")))
    if count > 100:
        yield warning(
            f"dynamic_dims has {count} profiles; all products but Ascend 950 take at most 100."
        )


@RULES.add("input_shape")
@source("guides/facts/dynamic.md#dynamic-profiles")
def inputs_in_alphabetical_order(entry: FlatOptions) -> RuleFindings:
    """The names of input_shape stand in the alphabetical order of the graph's input nodes."""
    names = [name for name, _ in shapes.split_inputs(entry.get("input_shape", ""))]
    if names != sorted(names):
        yield warning(
            f"input_shape names its inputs as {', '.join(names)}; GE assigns shapes in "
            f"alphabetical order ({', '.join(sorted(names))})."
        )


@RULES.add("compile_hybrid_mode", *PROFILE, ends=(Ends(ENTRY),))
@source("guides/facts/dynamic.md#dynamic-profiles; npu_attrs.cc")
def hybrid_mode_needs_placeholder_profiles(entry: FlatOptions) -> RuleFindings:
    """compile_hybrid_mode=1 needs the three profile keys, with dynamic_node_type=1."""
    if entry.get("compile_hybrid_mode") != 1:
        return
    if not _has_profiles(entry):
        yield error(
            f"{option('compile_hybrid_mode', 1)} needs input_shape, dynamic_dims and "
            "dynamic_node_type."
        )
    elif entry["dynamic_node_type"] != 1:
        yield error(
            f"{option('compile_hybrid_mode', 1)} works with placeholders only, but "
            f"{option('dynamic_node_type', 0)}.",
            f"Set {option('dynamic_node_type', 1)} or {option('compile_hybrid_mode', 0)}.",
        )


def _profiles_meet_another_mode(view: AdapterView) -> bool:
    """Return whether profiles meet an option, or AOE_MODE, that ProcessGraph and GeOp exclude."""
    others = view.is_on("mix_compile_mode") or view.is_on("compile_dynamic_mode")
    return view.has_profiles() and (others or view.tuning_mode() != "")


@RULES.add(
    "dynamic_dims",
    *PROFILE,
    "mix_compile_mode",
    "compile_dynamic_mode",
    "aoe_mode",
    ends=(
        Ends(
            OFFLOAD,
            fails=_profiles_meet_another_mode,
            wants="dynamic profiles exclude mix_compile_mode, compile_dynamic_mode and tuning",
        ),
    ),
)
@source("guides/facts/dynamic.md#dynamic-profiles; om_partition_subgraphs_pass.cc; geop_npu.cc")
def profiles_exclude(entry: FlatOptions) -> RuleFindings:
    """Profiles exclude mix_compile_mode, compile_dynamic_mode and aoe_mode."""
    if not _has_profiles(entry):
        return
    for switch in ("mix_compile_mode", "compile_dynamic_mode"):
        if entry.is_on(switch):
            yield error(
                f"dynamic_dims and {option(switch, True)} exclude each other.",
                "Drop one.",
            )
    if entry.get("aoe_mode"):
        yield error(
            f"dynamic_dims and {entry.text('aoe_mode')} exclude each other: AOE tunes static "
            "shapes only, and the run fails.",
            f"Leave the {PROFILE_PART} out for the tuning run.",
        )


@RULES.add("dynamic_dims", *PROFILE, "insert_op_file")
@source("guides/facts/dynamic.md#dynamic-profiles")
def profiles_exclude_image_preprocessing(entry: FlatOptions) -> RuleFindings:
    """Profiles exclude insert_op_file."""
    if _has_profiles(entry) and "insert_op_file" in entry:
        yield error("dynamic_dims and insert_op_file exclude each other.")


@RULES.add("dynamic_inputs_shape_range", "dynamic_dims")
@source("guides/facts/dynamic.md#dynamic-profiles")
def profiles_beat_shape_ranges(entry: FlatOptions) -> RuleFindings:
    """dynamic_dims makes dynamic_inputs_shape_range ineffective."""
    if "dynamic_inputs_shape_range" in entry and "dynamic_dims" in entry:
        yield no_effect("dynamic_inputs_shape_range has no effect: dynamic_dims takes precedence.")


@RULES.add(*DYNAMIC_DETAILS, "dynamic_input")
@source("guides/facts/dynamic.md#dynamic-inputs; npu_attrs.cc; manual, NPURunConfig Options")
def dynamic_details_need_dynamic_input(entry: FlatOptions) -> RuleFindings:
    """dynamic_graph_execute_mode and dynamic_inputs_shape_range need dynamic_input=True."""
    for key in DYNAMIC_DETAILS:
        if key in entry and not entry.is_on("dynamic_input"):
            yield no_effect(
                f"{entry.text(key)} has no effect: it is read with "
                f"{option('dynamic_input', True)}.",
                option=key,
            )
    lazy = entry.get("dynamic_graph_execute_mode") == "lazy_recompile"
    if lazy and entry.is_on("dynamic_input") and "dynamic_inputs_shape_range" in entry:
        yield no_effect(
            "dynamic_inputs_shape_range has no effect with "
            f"{option('dynamic_graph_execute_mode', 'lazy_recompile')}.",
            option="dynamic_inputs_shape_range",
        )


def _loops_while_lazy(view: AdapterView) -> bool:
    """Return whether lazy_recompile meets a loop; 32 bits of its count are read."""
    is_lazy = view.entry.get("dynamic_graph_execute_mode") == "lazy_recompile"
    loops = to_int32(view.entry.get("iterations_per_loop", 1))
    return view.is_on("dynamic_input") and is_lazy and loops > 1


@RULES.add(
    "iterations_per_loop",
    "dynamic_graph_execute_mode",
    "dynamic_input",
    ends=(
        Ends(
            OFFLOAD,
            fails=_loops_while_lazy,
            wants="dynamic_graph_execute_mode='lazy_recompile' needs 1",
        ),
    ),
)
@source("guides/facts/options.md#iterations-per-loop")
def lazy_recompile_runs_single_steps(entry: FlatOptions) -> RuleFindings:
    """lazy_recompile needs iterations_per_loop=1."""
    lazy = entry.get("dynamic_graph_execute_mode") == "lazy_recompile"
    loops = entry.get("iterations_per_loop", 1)
    if entry.is_on("dynamic_input") and lazy and loops > 1:
        yield error(
            f"{option('dynamic_graph_execute_mode', 'lazy_recompile')} needs "
            f"{option('iterations_per_loop', 1)}, not {loops}."
        )


@RULES.add("dynamic_inputs_shape_range", "enable_data_pre_proc")
@source(
    "guides/facts/dynamic.md#dynamic-inputs; om_partition_subgraphs_pass.cc ParseInputShapeRange"
)
def a_single_shape_group_loses_its_label(entry: FlatOptions) -> RuleFindings:
    """With one group the adapter ignores its label and goes by enable_data_pre_proc."""
    if "dynamic_inputs_shape_range" not in entry:
        return
    label, *others = re.findall("getnext|data", entry["dynamic_inputs_shape_range"])
    read_as = "getnext" if entry.is_on("enable_data_pre_proc") else "data"
    if not others and label != read_as:
        yield warning(
            f"dynamic_inputs_shape_range has only a {label!r} group; the adapter ignores the "
            f"label and applies it to {read_as!r}, because enable_data_pre_proc is "
            f"{entry.is_on('enable_data_pre_proc')}."
        )


@RULES.add("dynamic_input", "compile_dynamic_mode", ends=(Ends(OFFLOAD),))
@source("guides/facts/dynamic.md#dynamic-inputs")
def one_way_to_be_dynamic(entry: FlatOptions) -> RuleFindings:
    """compile_dynamic_mode and dynamic_input exclude each other."""
    if entry.is_on("compile_dynamic_mode") and entry.is_on("dynamic_input"):
        yield error(
            f"{option('dynamic_input', True)} and {option('compile_dynamic_mode', True)} exclude "
            "each other; the adapter fails on both.",
            "Keep compile_dynamic_mode, which replaces dynamic_input.",
        )


@RULES.add("jit_compile", "dynamic_input")
@source("guides/facts/dynamic.md#dynamic-inputs")
def dynamic_input_compiles_online(entry: FlatOptions) -> RuleFindings:
    """dynamic_input=True forces jit_compile to 'true'."""
    if entry.is_on("dynamic_input") and entry.get("jit_compile", "true") != "true":
        yield no_effect(
            f"{option('jit_compile', entry['jit_compile'])} becomes 'true': "
            f"{option('dynamic_input', True)} forces it."
        )


@RULES.add("shape_generalization_mode", "jit_compile", "compile_dynamic_mode")
@source("guides/facts/dynamic.md#dynamic-graphs")
def generalisation_needs_online_compilation(entry: FlatOptions) -> RuleFindings:
    """shape_generalization_mode needs jit_compile='true' and no compile_dynamic_mode."""
    mode = entry.get("shape_generalization_mode", "STRICT")
    online = entry.get("jit_compile") == "true" and not entry.is_on("compile_dynamic_mode")
    if mode != "STRICT" and not online:
        yield no_effect(
            f"{option('shape_generalization_mode', mode)} is ignored: it needs "
            f"{option('jit_compile', 'true')} and compile_dynamic_mode not True."
        )


@RULES.add("compile_dynamic_mode", "jit_compile", "shape_generalization_mode")
@source("guides/facts/dynamic.md#dynamic-graphs; npu_attrs.cc GetSessOptions")
def false_is_not_always_false(entry: FlatOptions) -> RuleFindings:
    """compile_dynamic_mode=False reaches GE only with jit_compile='true' and STRICT."""
    kept = (
        entry.get("jit_compile") == "true"
        and entry.get("shape_generalization_mode", "STRICT") == "STRICT"
    )
    if entry.get("compile_dynamic_mode") is False and not kept:
        yield no_effect(
            f"{option('compile_dynamic_mode', False)} becomes True in GE unless "
            f"{option('jit_compile', 'true')} and {option('shape_generalization_mode', 'STRICT')}."
        )


@RULES.add("external_weight", "compile_hybrid_mode")
@source("guides/facts/dynamic.md#dynamic-profiles")
def hybrid_mode_externalises_weights(entry: FlatOptions) -> RuleFindings:
    """compile_hybrid_mode=1 turns external_weight on."""
    if entry.get("compile_hybrid_mode") == 1 and entry.get("external_weight") is False:
        yield no_effect(
            f"{option('external_weight', False)} becomes True: {option('compile_hybrid_mode', 1)} "
            "needs it."
        )

"""Rules about how graphs run: loops, memory, compilation, tuning, collectives, the Estimator."""

import re

from ascend_session.config.ends import ENTRY, GE, OFFLOAD, RUN_CONFIG, AdapterView, Ends
from ascend_session.config.grammars import profiling_options
from ascend_session.config.hccl_variables import LONGEST_WAIT_ATLAS_S
from ascend_session.config.rules.rule import (
    FlatOptions,
    RuleBook,
    RuleFindings,
    error,
    no_effect,
    source,
    warning,
)
from ascend_session.config.tuning import TUNING_DETAILS
from ascend_session.findings import DIFFERS
from ascend_session.spelling import code, option
from ascend_session.text import format_duration
from ascend_session.vendor import HOST_JOBS

RULES = RuleBook()


@RULES.add("variable_placement", "mix_compile_mode")
@source("guides/facts/options.md#mixed-computing; manual, NPURunConfig Options")
def host_variables_need_mixed_computing(entry: FlatOptions) -> RuleFindings:
    """variable_placement='Host' needs mix_compile_mode=True."""
    if entry.get("variable_placement") == "Host" and not entry.is_on("mix_compile_mode"):
        mixed = code(str(entry.get("mix_compile_mode")), "off")
        yield error(
            f"{option('variable_placement', 'Host')} needs mixed computing; mix_compile_mode is "
            f"{mixed}.",
            f"Add {option('mix_compile_mode', True)}.",
        )


@RULES.add("iterations_per_loop", "mix_compile_mode", ends=(Ends(RUN_CONFIG),))
@source("guides/facts/options.md#mixed-computing; npu_config.py; manual, NPURunConfig Options")
def mixed_computing_runs_single_steps(entry: FlatOptions) -> RuleFindings:
    """mix_compile_mode=True needs iterations_per_loop=1."""
    loops = entry.get("iterations_per_loop", 1)
    if entry.is_on("mix_compile_mode") and loops != 1:
        yield error(
            f"{option('mix_compile_mode', True)} needs {option('iterations_per_loop', 1)}, "
            f"not {loops}."
        )


@RULES.add("iterations_per_loop", "enable_data_pre_proc")
@source("guides/facts/options.md#iterations-per-loop; manual, NPURunConfig Options")
def loops_need_offloaded_input(entry: FlatOptions) -> RuleFindings:
    """iterations_per_loop > 1 needs enable_data_pre_proc=True, else all steps share a batch."""
    loops = entry.get("iterations_per_loop", 1)
    if loops > 1 and not entry.is_on("enable_data_pre_proc"):
        yield warning(
            f"{option('iterations_per_loop', loops)} needs {option('enable_data_pre_proc', True)} "
            "and a tf.data input with an initializable iterator; a raw session's default is "
            f"False, and all {loops} steps of a run then share one batch.",
            effect=DIFFERS,
        )


@RULES.add("frozen_variable", "variable_placement")
@source("guides/facts/options.md#frozen-variables; frozen_variable_pass.cc")
def frozen_variables_are_read_on_the_host(entry: FlatOptions) -> RuleFindings:
    """frozen_variable=True needs variables that the host has initialised or restored."""
    if entry.is_on("frozen_variable") and entry.get("variable_placement") != "Host":
        yield warning(
            f"{option('frozen_variable', True)} makes the adapter read the variables on the host, "
            "and the first run fails if the device has initialised them.",
            "Load a frozen graph instead, or initialise and restore the variables on the host.",
        )


def _offloads_in_part_only(view: AdapterView) -> bool:
    """Return whether there are pairs without mixed computing; empty text has none."""
    return view.entry.get("in_out_pair", "") != "" and not view.is_on("mix_compile_mode")


@RULES.add(
    "in_out_pair",
    "mix_compile_mode",
    ends=(Ends(OFFLOAD, fails=_offloads_in_part_only, wants="it needs mix_compile_mode=True"),),
)
@source("guides/facts/options.md#mixed-computing")
def partial_offload_needs_mixed_computing(entry: FlatOptions) -> RuleFindings:
    """in_out_pair needs mix_compile_mode=True."""
    is_given = "in_out_pair" in entry and not entry.is_empty("in_out_pair")
    if is_given and not entry.is_on("mix_compile_mode"):
        yield error(
            f"in_out_pair needs {option('mix_compile_mode', True)}; the session fails without it."
        )


@RULES.add("in_out_pair_flag", "in_out_pair")
@source("guides/facts/former.md#options-without-effect")
def pair_flag_needs_a_pair(entry: FlatOptions) -> RuleFindings:
    """in_out_pair_flag has no effect without in_out_pair."""
    if "in_out_pair_flag" in entry and "in_out_pair" not in entry:
        yield no_effect("in_out_pair_flag has no effect without in_out_pair.")


@RULES.add("enable_compress_weight", "compress_weight_conf", ends=(Ends(ENTRY),))
@source("guides/facts/options.md#weight-compression; npu_attrs.cc")
def one_way_to_compress(entry: FlatOptions) -> RuleFindings:
    """enable_compress_weight and compress_weight_conf exclude each other, even with False."""
    if "enable_compress_weight" in entry and "compress_weight_conf" in entry:
        yield error(
            f"{entry.text('enable_compress_weight')} and compress_weight_conf "
            "exclude each other by presence; the adapter aborts the process.",
            "Leave one of them out altogether.",
        )


_UNUSUAL = re.compile("[^A-Za-z0-9_./\u4e00-\u9fff-]")


@RULES.add("op_compiler_cache_dir", "fusion_switch_file")
@source("guides/facts/options.md#operator-cache; manual, NPURunConfig Options; manual of ATC")
def characters_of_paths(entry: FlatOptions) -> RuleFindings:
    """The manual allows letters, digits, _, -, . and Chinese characters in these two paths."""
    for key in ("op_compiler_cache_dir", "fusion_switch_file"):
        path = entry.get(key)
        unusual = sorted(set(_UNUSUAL.findall(path))) if isinstance(path, str) else []
        if unusual:
            yield warning(
                f"{option(key, path)} has {', '.join(map(repr, unusual))}; the manual allows "
                "letters, digits, '_', '-', '.' and Chinese characters.",
                "Choose another path if the file or the cache is not found.",
                option=key,
            )


@RULES.add("enable_small_channel", "graph_run_mode")
@source("guides/facts/options.md#small-channels; npu_attrs.cc; manual, NPURunConfig Options")
def inference_forces_small_channel(entry: FlatOptions) -> RuleFindings:
    """graph_run_mode=0 forces enable_small_channel to 1."""
    if entry.get("graph_run_mode") == 0 and entry.get("enable_small_channel") == 0:
        yield no_effect(
            f"{option('enable_small_channel', 0)} becomes 1: inference "
            f"({option('graph_run_mode', 0)}) forces it."
        )


@RULES.add("use_off_line", "job")
@source("guides/facts/adapter.md#graphs-that-stay-on-the-cpu")
def nothing_is_offloaded(entry: FlatOptions) -> RuleFindings:
    """use_off_line=False and the jobs 'ps' and 'default' leave everything on the CPU."""
    if entry.get("use_off_line") is False:
        yield warning(f"{option('use_off_line', False)} runs the whole graph on the host CPU.")
    if entry.get("job") in HOST_JOBS:
        yield warning(
            f"{option('job', entry['job'])} skips the adapter: the graph runs on the host CPU.",
            option="job",
        )


@RULES.add("input_batch_cpy", "input_fusion_size")
@source("guides/facts/options.md#input-copies")
def fusion_takes_inputs_from_the_batch(entry: FlatOptions) -> RuleFindings:
    """input_fusion_size and input_batch_cpy compete for the same inputs."""
    size = entry.get("input_fusion_size", 131072)
    if entry.is_on("input_batch_cpy") and size > 0:
        yield warning(
            f"{option('input_batch_cpy', True)} leaves out the inputs that "
            f"{option('input_fusion_size', size)} merges; set {option('input_fusion_size', 0)} to "
            "copy all of them in one batch."
        )


@RULES.add("aicore_num", "jit_compile")
@source("guides/facts/options.md#numbers-of-cores-and-streams")
def core_limit_needs_compilation(entry: FlatOptions) -> RuleFindings:
    """aicore_num does nothing where shipped binaries are reused."""
    if "aicore_num" in entry and entry.get("jit_compile") == "false":
        yield no_effect(
            f"{option('aicore_num', entry['aicore_num'])} has no effect on static graphs with "
            f"{option('jit_compile', 'false')}, which reuse shipped binaries."
        )


@RULES.add("fusion_switch_file", "optimization_switch")
@source("guides/facts/options.md#fusion-switches")
def inline_switches_win(entry: FlatOptions) -> RuleFindings:
    """optimization_switch beats fusion_switch_file for a pass that both name."""
    if "fusion_switch_file" in entry and "optimization_switch" in entry:
        yield warning(
            "optimization_switch takes precedence over fusion_switch_file for every pass that "
            "both name."
        )


@RULES.add("variable_format_optimize")
@source("guides/facts/former.md#options-without-effect")
def format_optimisation_cannot_be_turned_off(entry: FlatOptions) -> RuleFindings:
    """variable_format_optimize=False is not understood by GE."""
    if entry.get("variable_format_optimize") is False:
        yield no_effect(
            f"{option('variable_format_optimize', False)} does not disable it: the adapter sends "
            "'0', GE looks for the word False."
        )


@RULES.add("static_memory_policy", "graph_max_parallel_model_num")
@source("guides/facts/options.md#memory")
def expandable_memory_runs_one_graph(entry: FlatOptions) -> RuleFindings:
    """static_memory_policy 2 and 4 exclude graphs that run at the same time."""
    policy, threads = (
        entry.get("static_memory_policy"),
        entry.get("graph_max_parallel_model_num", 1),
    )
    if policy in (2, 4) and threads > 1:
        yield warning(
            f"{option('static_memory_policy', policy)} does not allow graphs to run at the same "
            f"time, but {option('graph_max_parallel_model_num', threads)} asks for that."
        )


# Adding the graph 17,340 times took the adapter 27 s, without the work that GE does for each
# (guides/facts/adapter.md#options-that-nobody-checks): from here on it is more than a minute.
_GRAPHS_A_MINUTE = 38_500
_SECONDS_A_GRAPH = 27 / 17_340
_SECONDS_A_DAY = 86_400


@RULES.add("graph_max_parallel_model_num")
@source("guides/facts/adapter.md#options-that-nobody-checks; geop_npu.cc CompileGraph")
def parallel_graphs_are_added_one_by_one(entry: FlatOptions) -> RuleFindings:
    """A large graph_max_parallel_model_num takes long: the adapter adds the graph that often."""
    count = entry.get("graph_max_parallel_model_num", 1)
    if count >= _GRAPHS_A_MINUTE:
        seconds = count * _SECONDS_A_GRAPH
        effect = f"which takes {format_duration(seconds)} or more"
        if seconds > _SECONDS_A_DAY:
            effect = "and hangs for good"
        yield warning(
            f"{option('graph_max_parallel_model_num', count)}: the adapter adds the graph that "
            f"many times before its first run, {effect}.",
            "Give the number of threads that run the graph at the same time.",
        )


@RULES.add("profiling_options", "profiling_mode")
@source("guides/facts/dumps.md#profiling; npu_attrs.cc")
def profiling_options_need_profiling(entry: FlatOptions) -> RuleFindings:
    """profiling_options are read only with enable_profiling=True."""
    if "profiling_options" in entry and not entry.is_on("profiling_mode"):
        yield no_effect(
            "profiling_options have no effect: they are read with "
            f"{option('profiling_mode', True)}, which is {option('enable_profiling', True)} in a "
            f"{code('ProfilingConfig', 'profiling_config')}.",
            "Turn profiling on, or leave profiling_options out.",
        )


@RULES.add("profiling_options")
@source("guides/facts/option_files.md#profiling_options")
def profiling_options_that_ask_for_more(entry: FlatOptions) -> RuleFindings:
    """task_trace asks for training_trace; not every release knows members without a manual."""
    if "profiling_options" not in entry:
        return
    members = profiling_options.profiling_members(entry["profiling_options"])
    if members.get("task_trace") == "on" and "training_trace" not in members:
        yield warning(
            f"profiling_options: {option('task_trace', 'on')} asks for "
            f"{option('training_trace', 'on')} too.",
            'Add "training_trace":"on".',
        )
    limit = members.get("storage_limit", "200MB")
    if limit and int(limit[: -len("MB")]) < 200:
        yield no_effect(
            f"profiling_options: {option('storage_limit', limit)} has no effect; the profiler "
            "takes '200MB' and more."
        )
    for name in (name for name in members if name in profiling_options.UNDESCRIBED):
        yield warning(
            f"profiling_options: {name!r} is not in the manual; a GE that does not know it aborts."
        )


@RULES.add("aoe_mode", "static_memory_policy", "profiling_mode")
@source("guides/facts/aoe.md#aoe-tuning; manual of AOE, Subgraph/Operator Tuning")
def tuning_conditions(entry: FlatOptions) -> RuleFindings:
    """AOE tuning needs static_memory_policy 0 and profiling off."""
    if "aoe_mode" not in entry:
        return
    policy = entry.get("static_memory_policy", 0)
    if policy != 0:
        yield error(
            f"{option('static_memory_policy', policy)} cannot be used while AOE tunes "
            f"({option('aoe_mode', entry['aoe_mode'])}).",
            f"Set {option('static_memory_policy', 0)} for the tuning run.",
            option="static_memory_policy",
        )
    if entry.is_on("profiling_mode"):
        yield error(
            f"{option('enable_profiling', True)} cannot be used while AOE tunes "
            f"({option('aoe_mode', entry['aoe_mode'])}).",
            "Turn profiling off for the tuning run.",
            option="profiling_mode",
        )


@RULES.add(*TUNING_DETAILS, "aoe_mode")
@source("guides/facts/aoe.md#aoe-tuning")
def tuning_details_need_tuning(entry: FlatOptions) -> RuleFindings:
    """work_path, distribute_config and aoe_config_file are read only while AOE tunes."""
    for key in TUNING_DETAILS:
        if key in entry and "aoe_mode" not in entry:
            yield no_effect(
                f"{entry.text(key)} has no effect without aoe_mode (or AOE_MODE).", option=key
            )


# HCCL on Atlas training products counts in steps (guides/facts/launch.md#hccl-timeouts).
_STEP = 68  # seconds


def atlas_timeout(seconds: int) -> int:
    """Round an hccl_timeout as Atlas training products do, in seconds."""
    return min(max(seconds // _STEP * _STEP, _STEP), LONGEST_WAIT_ATLAS_S)


@RULES.add("hccl_timeout")
@source("guides/facts/launch.md#hccl-timeouts")
def hccl_timeout_is_rounded(entry: FlatOptions) -> RuleFindings:
    """Atlas training products round hccl_timeout down to a multiple of 68 seconds."""
    given = entry.get("hccl_timeout")
    if given is None:
        return
    if given == 0:
        yield warning(
            f"{option('hccl_timeout', 0)} means 'never' on Ascend 950, A3 and A2; Atlas training "
            f"products take 1 to {LONGEST_WAIT_ATLAS_S}."
        )
    elif atlas_timeout(given) != given:
        yield warning(
            f"{option('hccl_timeout', given)} becomes {atlas_timeout(given)} s on Atlas training "
            f"products, which take multiples of {_STEP} up to {LONGEST_WAIT_ATLAS_S}."
        )


@RULES.add("stream_sync_timeout", "hccl_timeout")
@source("guides/facts/options.md#time-limits; manual, NPURunConfig Options")
def stream_sync_outlasts_collectives(entry: FlatOptions) -> RuleFindings:
    """In a cluster stream_sync_timeout (ms) must be longer than hccl_timeout (s)."""
    stream, hccl = entry.get("stream_sync_timeout", -1), entry.get("hccl_timeout")
    if stream > 0 and hccl is not None and (hccl == 0 or stream <= hccl * 1000):
        yield warning(
            f"{option('stream_sync_timeout', stream)} ms is not longer than "
            f"{option('hccl_timeout', hccl)} s; in a cluster the streams give up before the "
            "collectives do."
        )


@RULES.add(
    "graph_exec_timeout",
    ends=(Ends(GE, "heterogeneous_model_executor.cc, GetTimeoutFromOption", is_proven=False),),
)
@source("heterogeneous_model_executor.cc GetTimeoutFromOption")
def graph_timeout_is_in_seconds(entry: FlatOptions) -> RuleFindings:
    """Runs over several kinds of devices take whole seconds for graph_exec_timeout (ms)."""
    timeout = entry.get("graph_exec_timeout", -1)
    if timeout >= 0 and (timeout == 0 or timeout % 1000):
        yield warning(
            f"{option('graph_exec_timeout', timeout)} aborts a heterogeneous run, as GE's "
            "heterogeneous_model_executor.cc reads: it takes multiples of 1000 ms above 0."
        )


@RULES.add("local_rank_id", "local_device_list")
@source("guides/facts/options.md#data-distribution; manual, NPURunConfig Options")
def preprocessing_needs_both(entry: FlatOptions) -> RuleFindings:
    """local_rank_id and local_device_list go together."""
    if ("local_rank_id" in entry) != ("local_device_list" in entry):
        given, missing = "local_rank_id", "local_device_list"
        if given not in entry:
            given, missing = missing, given
        yield warning(f"{entry.text(given)} is meant to be used with {missing}.", option=given)


@RULES.add("experimental_logical_device_id", "experimental_logical_device_cluster_deploy_mode")
@source("guides/facts/options.md#logical-devices; npu_config.py")
def logical_device_needs_single(entry: FlatOptions) -> RuleFindings:
    """logical_device_id is read only with logical_device_cluster_deploy_mode='SINGLE'."""
    mode = entry.get("experimental_logical_device_cluster_deploy_mode")
    if "experimental_logical_device_id" in entry and mode != "SINGLE":
        yield no_effect(
            "logical_device_id has no effect without "
            f"{option('logical_device_cluster_deploy_mode', 'SINGLE')}.",
            option="logical_device_id",
        )


@RULES.add("save_checkpoints_secs", "save_checkpoints_steps", ends=(Ends(RUN_CONFIG),))
@source("guides/facts/options.md#checkpoints; npu_config.py")
def one_checkpoint_interval(entry: FlatOptions) -> RuleFindings:
    """save_checkpoints_secs and save_checkpoints_steps exclude each other."""
    if "save_checkpoints_secs" in entry and "save_checkpoints_steps" in entry:
        yield error(
            f"{option('save_checkpoints_secs', entry['save_checkpoints_secs'])} and "
            f"{option('save_checkpoints_steps', entry['save_checkpoints_steps'])} exclude each "
            "other; TensorFlow refuses both."
        )


@RULES.add("save_checkpoints_steps", "iterations_per_loop")
@source("guides/facts/options.md#iterations-per-loop")
def checkpoints_fall_on_loop_ends(entry: FlatOptions) -> RuleFindings:
    """save_checkpoints_steps should be a multiple of iterations_per_loop."""
    loops = entry.get("iterations_per_loop", 1)
    steps = entry.get("save_checkpoints_steps")
    # An audit may find text there, which nothing else refuses.
    if steps and not isinstance(steps, str) and steps % loops:
        yield warning(
            f"{option('save_checkpoints_steps', steps)} is not a multiple of "
            f"{option('iterations_per_loop', loops)}: by the manual, some checkpoints may then "
            "not be saved as configured."
        )


@RULES.add("distribute", "mix_compile_mode", ends=(Ends(RUN_CONFIG),))
@source("guides/facts/options.md#parameter-servers; npu_config.py; manual, NPURunConfig Options")
def parameter_servers_need_mixed_computing(entry: FlatOptions) -> RuleFindings:
    """Distribute (parameter servers) needs mix_compile_mode=True."""
    if "distribute" in entry and not entry.is_on("mix_compile_mode"):
        yield error(
            f"distribute, a parameter-server job, needs {option('mix_compile_mode', True)}.",
            f"Add {option('mix_compile_mode', True)}.",
        )


@RULES.add("recompute")
@source("guides/facts/adapter.md#npurunconfig-and-npuestimator")
def recompute_needs_its_helper(entry: FlatOptions) -> RuleFindings:
    """Recompute becomes a graph attribute only through util.set_graph_exec_config."""
    if "recompute" in entry:
        yield no_effect(
            f"{option('recompute', entry['recompute'])} has no key in the session options; it "
            "takes effect through npu_bridge's util.set_graph_exec_config only."
        )

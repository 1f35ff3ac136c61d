"""Rules about mixed computing, loops, memory and compilation."""

from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Findings, RuleBook, error, warning

__all__ = ["RULES"]

RULES = RuleBook()


@RULES.add("variable_placement", "mix_compile_mode", source="options_notes a7; seed 000")
def host_variables_need_mixed_computing(entry: Entry) -> Findings:
    """variable_placement='Host' needs mix_compile_mode=True."""
    if entry.get("variable_placement") == "Host" and not entry.is_on("mix_compile_mode"):
        yield error(
            "variable_placement",
            "variable_placement='Host' needs mixed computing; mix_compile_mode is "
            f"{entry.get('mix_compile_mode')}.",
            "Add mix_compile_mode=True.",
        )


@RULES.add(
    "iterations_per_loop", "mix_compile_mode", source="options_notes a8; npu_config.py; seed 000"
)
def mixed_computing_runs_single_steps(entry: Entry) -> Findings:
    """mix_compile_mode=True needs iterations_per_loop=1."""
    loops = entry.get("iterations_per_loop", 1)
    if entry.is_on("mix_compile_mode") and loops != 1:
        yield error(
            "iterations_per_loop",
            f"mix_compile_mode=True needs iterations_per_loop=1, not {loops}.",
        )


@RULES.add("iterations_per_loop", "enable_data_pre_proc", source="options_notes a19; seed 000")
def loops_need_offloaded_input(entry: Entry) -> Findings:
    """iterations_per_loop > 1 needs enable_data_pre_proc=True and tf.data input."""
    loops = entry.get("iterations_per_loop", 1)
    if loops > 1 and not entry.is_on("enable_data_pre_proc"):
        yield warning(
            "iterations_per_loop",
            f"iterations_per_loop={loops} needs enable_data_pre_proc=True and a tf.data input "
            "with an initializable iterator; a raw session's default is False.",
        )


@RULES.add("in_out_pair", "mix_compile_mode", source="options_notes a10")
def partial_offload_needs_mixed_computing(entry: Entry) -> Findings:
    """in_out_pair needs mix_compile_mode=True."""
    if "in_out_pair" in entry and not entry.is_on("mix_compile_mode"):
        yield error(
            "in_out_pair",
            "in_out_pair needs mix_compile_mode=True; the session fails without it.",
        )


@RULES.add("in_out_pair_flag", "in_out_pair", source="options.json")
def pair_flag_needs_a_pair(entry: Entry) -> Findings:
    """in_out_pair_flag says nothing without in_out_pair."""
    if "in_out_pair_flag" in entry and "in_out_pair" not in entry:
        yield warning("in_out_pair_flag", "in_out_pair_flag has no effect without in_out_pair.")


@RULES.add(
    "enable_compress_weight", "compress_weight_conf", source="options_notes a33; npu_attrs.cc"
)
def one_way_to_compress(entry: Entry) -> Findings:
    """enable_compress_weight and compress_weight_conf exclude each other, even with False."""
    if "enable_compress_weight" in entry and "compress_weight_conf" in entry:
        yield error(
            "enable_compress_weight",
            f"{entry.said('enable_compress_weight')} and compress_weight_conf "
            "exclude each other by presence; the adapter aborts the process.",
            "Leave one of them out altogether.",
        )


@RULES.add(
    "enable_small_channel", "graph_run_mode", source="options_notes a34; npu_attrs.cc; seed 000"
)
def inference_forces_small_channel(entry: Entry) -> Findings:
    """graph_run_mode=0 forces enable_small_channel to 1."""
    if entry.get("graph_run_mode") == 0 and entry.get("enable_small_channel") == 0:
        yield warning(
            "enable_small_channel",
            "enable_small_channel=0 becomes 1: inference (graph_run_mode=0) forces it.",
        )


@RULES.add("use_off_line", "job", source="adapter_behaviour, 'Accepted without a word'")
def nothing_is_offloaded(entry: Entry) -> Findings:
    """use_off_line=False and the jobs 'ps' and 'default' leave everything on the CPU."""
    if entry.get("use_off_line") is False:
        yield warning("use_off_line", "use_off_line=False runs the whole graph on the host CPU.")
    if entry.get("job") in ("ps", "default"):
        yield warning(
            "job", f"job={entry['job']!r} skips the adapter: the graph runs on the host CPU."
        )


@RULES.add("input_batch_cpy", "input_fusion_size", source="options_notes a45")
def fusion_takes_inputs_from_the_batch(entry: Entry) -> Findings:
    """input_fusion_size and input_batch_cpy compete for the same inputs."""
    size = entry.get("input_fusion_size", 131072)
    if entry.is_on("input_batch_cpy") and size > 0:
        yield warning(
            "input_batch_cpy",
            f"input_batch_cpy=True leaves out the inputs that input_fusion_size={size} merges; "
            "set input_fusion_size=0 to copy all of them in one batch.",
        )


@RULES.add("aicore_num", "jit_compile", source="options_notes a47")
def core_limit_needs_compilation(entry: Entry) -> Findings:
    """aicore_num does nothing where shipped binaries are reused."""
    if "aicore_num" in entry and entry.get("jit_compile") == "false":
        yield warning(
            "aicore_num",
            f"aicore_num={entry['aicore_num']!r} has no effect on static graphs with "
            "jit_compile='false', which reuse shipped binaries.",
        )


@RULES.add("fusion_switch_file", "optimization_switch", source="options_notes a49")
def inline_switches_win(entry: Entry) -> Findings:
    """optimization_switch beats fusion_switch_file for a pass that both name."""
    if "fusion_switch_file" in entry and "optimization_switch" in entry:
        yield warning(
            "fusion_switch_file",
            "optimization_switch takes precedence over fusion_switch_file for every pass that "
            "both name.",
        )


@RULES.add("variable_format_optimize", source="options_notes g11; options.json")
def format_optimisation_cannot_be_turned_off(entry: Entry) -> Findings:
    """variable_format_optimize=False is not understood by GE."""
    if entry.get("variable_format_optimize") is False:
        yield warning(
            "variable_format_optimize",
            "variable_format_optimize=False does not disable it: the adapter sends '0', GE looks "
            "for the word False.",
        )


@RULES.add("static_memory_policy", "graph_max_parallel_model_num", source="options_notes a44")
def expandable_memory_runs_one_graph(entry: Entry) -> Findings:
    """static_memory_policy 2 and 4 exclude graphs that run at the same time."""
    policy, threads = (
        entry.get("static_memory_policy"),
        entry.get("graph_max_parallel_model_num", 1),
    )
    if policy in (2, 4) and threads > 1:
        yield warning(
            "static_memory_policy",
            f"static_memory_policy={policy} does not allow graphs to run at the same time, but "
            f"graph_max_parallel_model_num={threads} asks for that.",
        )

"""Rules about what only NPURunConfig and tf.estimator read."""

from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Findings, RuleBook, error, warning

__all__ = ["RULES"]

RULES = RuleBook()


@RULES.add(
    "save_checkpoints_secs", "save_checkpoints_steps", source="options_notes a52; npu_config.py"
)
def one_checkpoint_interval(entry: Entry) -> Findings:
    """save_checkpoints_secs and save_checkpoints_steps exclude each other."""
    if "save_checkpoints_secs" in entry and "save_checkpoints_steps" in entry:
        yield error(
            "save_checkpoints_secs",
            f"save_checkpoints_secs={entry['save_checkpoints_secs']} and save_checkpoints_steps="
            f"{entry['save_checkpoints_steps']} exclude each other; TensorFlow refuses both.",
        )


@RULES.add("save_checkpoints_steps", "iterations_per_loop", source="options_notes a19")
def checkpoints_fall_on_loop_ends(entry: Entry) -> Findings:
    """save_checkpoints_steps should be a multiple of iterations_per_loop."""
    loops = entry.get("iterations_per_loop", 1)
    steps = entry.get("save_checkpoints_steps")
    if steps and steps % loops:
        yield warning(
            "save_checkpoints_steps",
            f"save_checkpoints_steps={steps} is not a multiple of iterations_per_loop={loops}: "
            "checkpoints are skipped without a word.",
        )


@RULES.add("distribute", "mix_compile_mode", source="options_notes a9; npu_config.py; seed 000")
def parameter_servers_need_mixed_computing(entry: Entry) -> Findings:
    """Distribute (parameter servers) needs mix_compile_mode=True."""
    if "distribute" in entry and not entry.is_on("mix_compile_mode"):
        yield error(
            "distribute",
            "distribute, a parameter-server job, needs mix_compile_mode=True.",
            "Add mix_compile_mode=True.",
        )


@RULES.add("recompute", source="options_notes g9; options.json")
def recompute_needs_its_helper(entry: Entry) -> Findings:
    """Recompute becomes a graph attribute only through util.set_graph_exec_config."""
    if "recompute" in entry:
        yield warning(
            "recompute",
            f"recompute={entry['recompute']!r} has no key in the session options; it takes effect "
            "through npu_bridge's util.set_graph_exec_config only.",
        )

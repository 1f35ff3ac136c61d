"""Rules about profiling and AOE tuning."""

from ascend_session.config import profiling_options
from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Findings, RuleBook, error, warning

__all__ = ["RULES"]

RULES = RuleBook()


@RULES.add("profiling_options", "profiling_mode", source="options_notes a43; npu_attrs.cc")
def profiling_options_need_profiling(entry: Entry) -> Findings:
    """profiling_options are read only with enable_profiling=True."""
    if "profiling_options" in entry and not entry.is_on("profiling_mode"):
        yield warning(
            "profiling_options",
            "profiling_options have no effect: they are read with enable_profiling=True "
            "(profiling_mode in the entry).",
        )


@RULES.add("profiling_options", source="options_notes c, profiling_options")
def profiling_options_that_ask_for_more(entry: Entry) -> Findings:
    """task_trace asks for training_trace; unknown members may be refused by GE."""
    if "profiling_options" not in entry:
        return
    text = entry["profiling_options"]
    members = profiling_options.profiling_members(text)
    if members.get("task_trace") == "on" and "training_trace" not in members:
        yield warning(
            "profiling_options",
            "profiling_options: task_trace='on' asks for training_trace='on' too.",
        )
    for name in profiling_options.unknown_members(text):
        yield warning(
            "profiling_options",
            f"profiling_options: {name!r} is not in the manual; GE may refuse to initialise.",
        )


@RULES.add(
    "aoe_mode", "static_memory_policy", "profiling_mode", source="options_notes a40; seed 003"
)
def tuning_conditions(entry: Entry) -> Findings:
    """AOE tuning needs static_memory_policy 0 and profiling off."""
    if "aoe_mode" not in entry:
        return
    policy = entry.get("static_memory_policy", 0)
    if policy != 0:
        yield error(
            "static_memory_policy",
            f"static_memory_policy={policy} cannot be used while AOE tunes "
            f"(aoe_mode={entry['aoe_mode']!r}).",
            "Set static_memory_policy=0 for the tuning run.",
        )
    if entry.is_on("profiling_mode"):
        yield error(
            "profiling_mode",
            "enable_profiling=True cannot be used while AOE tunes "
            f"(aoe_mode={entry['aoe_mode']!r}).",
            "Turn profiling off for the tuning run.",
        )


@RULES.add(
    "work_path", "distribute_config", "aoe_config_file", "aoe_mode", source="options_notes a40"
)
def tuning_details_need_tuning(entry: Entry) -> Findings:
    """work_path, distribute_config and aoe_config_file are read only while AOE tunes."""
    for key in ("work_path", "distribute_config", "aoe_config_file"):
        if key in entry and "aoe_mode" not in entry:
            yield warning(
                key, f"{key}={entry[key]!r} has no effect without aoe_mode (or AOE_MODE)."
            )

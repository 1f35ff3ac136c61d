"""Rules about data dump, overflow detection and debugging files."""

from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Findings, RuleBook, error, warning

__all__ = ["RULES"]

RULES = RuleBook()


@RULES.add(
    "dump_path",
    "enable_dump",
    "enable_dump_debug",
    source="options_notes a24; npu_attrs.cc; seed 002",
)
def dump_needs_a_path(entry: Entry) -> Findings:
    """enable_dump and enable_dump_debug need dump_path."""
    switch = next((k for k in ("enable_dump", "enable_dump_debug") if entry.is_on(k)), None)
    if switch and "dump_path" not in entry:
        yield error(
            "dump_path",
            f"{switch}=True needs dump_path, an existing directory that you may read and write.",
            f'Write DumpConfig({switch}=True, dump_path="...").',
        )


@RULES.add("enable_dump", "enable_dump_debug", source="options_notes a25; GE E10001")
def one_kind_of_dump(entry: Entry) -> Findings:
    """enable_dump and enable_dump_debug exclude each other."""
    if entry.is_on("enable_dump") and entry.is_on("enable_dump_debug"):
        yield error(
            "enable_dump_debug",
            "enable_dump=True and enable_dump_debug=True exclude each other; GE fails on both.",
            "Dump data (enable_dump) or look for overflow (enable_dump_debug), one at a time.",
        )


@RULES.add(
    "dump_step",
    "dump_mode",
    "dump_debug_mode",
    "enable_dump",
    "enable_dump_debug",
    source="options_notes a26; npu_attrs.cc",
)
def dump_details_need_their_switch(entry: Entry) -> Findings:
    """dump_step and dump_mode are read with enable_dump, dump_debug_mode with its own switch."""
    pairs = (
        ("dump_step", "enable_dump"),
        ("dump_mode", "enable_dump"),
        ("dump_debug_mode", "enable_dump_debug"),
    )
    for detail, switch in pairs:
        if detail in entry and not entry.is_on(switch):
            yield warning(
                detail, f"{entry.said(detail)} has no effect: it is read with {switch}=True."
            )


@RULES.add("enable_exception_dump", "enable_dump", "enable_dump_debug", source="options_notes a27")
def exception_dump_beside_dump(entry: Entry) -> Findings:
    """enable_exception_dump=1 suppresses the other dumps on dynamic-shape graphs."""
    dumps = entry.is_on("enable_dump") or entry.is_on("enable_dump_debug")
    if entry.get("enable_exception_dump") == 1 and dumps:
        yield warning(
            "enable_exception_dump",
            "enable_exception_dump=1 together with a dump: on dynamic-shape graphs only the "
            "exception dump is written.",
        )


@RULES.add(
    "op_compiler_cache_mode",
    "op_debug_level",
    "op_debug_config",
    source="options_notes a38",
)
def debugging_disables_the_compile_cache(entry: Entry) -> Findings:
    """A non-zero op_debug_level disables the operator compile cache."""
    level = entry.get("op_debug_level", 0)
    if "op_compiler_cache_mode" in entry and level != 0:
        yield warning(
            "op_compiler_cache_mode",
            f"op_compiler_cache_mode={entry['op_compiler_cache_mode']!r} has no effect with "
            f"op_debug_level={level}.",
        )


@RULES.add("op_debug_level", source="seed 002; options.json")
def debug_level_slows_training(entry: Entry) -> Findings:
    """op_debug_level 1 and 2 are for finding faults; train with 0 or 3."""
    level = entry.get("op_debug_level")
    if level in (1, 2) and entry.get("graph_run_mode", 1) == 1:
        yield warning(
            "op_debug_level",
            f"op_debug_level={level} slows training down; the manual advises 0 or 3 for training.",
        )


@RULES.add("quant_dumpable", "enable_dump", source="seed 000; options.json")
def quant_dump_needs_dump(entry: Entry) -> Findings:
    """quant_dumpable='1' matters only while data is dumped."""
    if entry.get("quant_dumpable") == "1" and not entry.is_on("enable_dump"):
        yield warning(
            "quant_dumpable", "quant_dumpable='1' has no effect without enable_dump=True."
        )


@RULES.add("debug_dir", "op_debug_level", "op_debug_config", source="options.json, debug_dir")
def debug_directory_needs_debugging(entry: Entry) -> Findings:
    """debug_dir is used only while op_debug_level or op_debug_config keeps debug files."""
    keeps = entry.get("op_debug_level", 0) != 0 or "op_debug_config" in entry
    if "debug_dir" in entry and not keeps:
        yield warning(
            "debug_dir",
            f"{entry.said('debug_dir')} has no effect: no debug files are kept without "
            "op_debug_config or op_debug_level.",
        )

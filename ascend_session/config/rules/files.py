"""Host rules about the files that options point to: what stands in them."""

import os
from typing import TYPE_CHECKING, Dict, Iterator, Tuple, Type

from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Finding, Findings, RuleBook, error, warning
from ascend_session.config.rules.paths import tuning_mode
from ascend_session.errors import ConfigError

if TYPE_CHECKING:
    from ascend_session.option_files import OptionFile

__all__ = ["RULES"]

RULES = RuleBook()

_OPTIONS = (
    "modify_mixlist",
    "customize_dtypes",
    "fusion_switch_file",
    "op_precision_mode",
    "op_debug_config",
    "aoe_config_file",
)
_MOST_TOLD = 5


def _kinds() -> "Dict[str, Type[OptionFile]]":
    """The type of each option's file; who has no such file does not pay for its import."""
    from ascend_session import option_files as files

    kinds: Tuple[Type[OptionFile], ...] = (
        files.MixList,
        files.CustomDtypes,
        files.FusionSwitch,
        files.OpPrecision,
        files.OpDebugConfig,
        files.AoeConfigFile,
    )
    return {kind.OPTION: kind for kind in kinds}


def _files(entry: Entry) -> Iterator[Tuple[str, str]]:
    """The options that point to a file which is there; others belong to the rules about paths."""
    for option in _OPTIONS:
        path = entry.get(option)
        if path is not None and os.path.isfile(path):
            yield option, path


@RULES.add(*_OPTIONS, source="options_notes c; hicann/ge, config parsers")
def files_say_what_ge_reads(entry: Entry) -> Findings:
    """GE takes the files that options point to, and skips nothing that stands in them."""
    for option, path in _files(entry):
        yield from _findings(option, path)


def _findings(option: str, path: str) -> Iterator[Finding]:
    try:
        remarks = _kinds()[option].check(path)
    except ConfigError as refusal:
        problems = refusal.problems
        if not problems:
            yield error(option, f"{option}: {refusal.message}", refusal.hint)
        for problem in problems:
            yield error(option, f"{option}: {problem.message}", problem.hint)
        return
    for remark in remarks[:_MOST_TOLD]:
        place = f"{path}:{remark.line}:{remark.column}"
        yield warning(option, f"{option}: {place}: {remark.message}", remark.hint)
    if len(remarks) > _MOST_TOLD:
        more = f"{len(remarks) - _MOST_TOLD:,} more such remarks"
        yield warning(option, f"{option}: {path} has {more}.")


@RULES.add("aoe_config_file", "aoe_mode", source="options_notes a41")
def tuning_features_belong_to_a_mode(entry: Entry) -> Findings:
    """The feature deeper_opat needs aoe_mode 2, nonhomo_split needs aoe_mode 1."""
    mode = tuning_mode(entry)
    path = entry.get("aoe_config_file")
    if mode is None or path is None or not os.path.isfile(path):
        return
    from ascend_session.option_files import AoeConfigFile

    try:
        faults = AoeConfigFile.read(path).against(mode)
    except ConfigError:
        return
    for fault in faults:
        yield error("aoe_config_file", f"aoe_config_file: {path}: {fault}")

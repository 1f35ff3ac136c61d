"""Host rules about paths and files: existence, permissions, and content."""

import os
from typing import Any, Iterable, Iterator, Optional, Tuple

from ascend_session.config.ends import ENTRY, GE, AdapterView, Ends
from ascend_session.config.entry import is_file
from ascend_session.config.grammars import profiling_options
from ascend_session.config.rules.accuracy import DUMPS
from ascend_session.config.rules.rule import (
    FlatOptions,
    RuleBook,
    RuleFindings,
    error,
    no_effect,
    source,
    warning,
)
from ascend_session.config.tuning import MODES, TUNING_DETAILS
from ascend_session.config.types import TYPE_NAMES, file_type
from ascend_session.errors import ConfigError
from ascend_session.files import load_file
from ascend_session.findings import Finding
from ascend_session.spelling import option

RULES = RuleBook()
OPENING_RULES = RuleBook()

# Files that GE or AOE reads when it initialises (guides/facts/option_files.md)
_FILES = (
    *TYPE_NAMES,
    "insert_op_file",
    "resource_config_path",
    "distribute_config",
)


def tuning_mode(entry: FlatOptions) -> Optional[str]:
    """The AOE mode in force: the option, else the variable, else None."""
    return entry.get("aoe_mode") or entry.environ.get("AOE_MODE") or None


def unusable_directory(path: str) -> Optional[str]:
    """Return why the adapter's CheckPath refuses ``path``; None if it accepts it."""
    if not os.path.exists(path):
        return "does not exist"
    if not os.path.isdir(path):
        return "is not a folder"
    if not os.access(path, os.R_OK | os.W_OK):
        return "is not readable and writable for you"
    return None


def _remedy(path: str, reason: str) -> Optional[str]:
    if path.startswith("~"):
        return "Write the whole path; '~' is not expanded here."
    return f"mkdir -p {path}" if "exist" in reason else None


def _fails_as_directory(path: str) -> bool:
    """Return whether CheckPath refuses a path; it reads up to a NUL."""
    return unusable_directory(path.partition("\0")[0]) is not None


def _cannot_dump(view: AdapterView) -> bool:
    given = any(map(view.is_on, DUMPS)) and "dump_path" in view.entry
    return given and _fails_as_directory(view.entry["dump_path"])


@RULES.add(
    "dump_path",
    *DUMPS,
    ends=(
        Ends(
            ENTRY,
            fails=_cannot_dump,
            wants="a dump needs an existing folder that you may read and write",
        ),
    ),
)
@source("npu_attrs.cc CheckPath")
def dump_directory(entry: FlatOptions) -> RuleFindings:
    """dump_path is an existing folder that you may read and write."""
    dumps = any(map(entry.is_on, DUMPS)) and "dump_path" in entry
    path = entry["dump_path"] if dumps else ""
    reason = unusable_directory(path) if dumps else None
    if reason:
        yield error(
            f"{option('dump_path', path)} {reason}; the adapter fails at the first run.",
            _remedy(path, reason),
        )


def _cannot_tune(view: AdapterView) -> bool:
    is_tuning = view.tuning_mode() in MODES.values()
    return is_tuning and _fails_as_directory(view.entry.get("work_path", "./"))


@RULES.add(
    "work_path",
    "aoe_mode",
    ends=(
        Ends(
            ENTRY,
            fails=_cannot_tune,
            wants="AOE needs an existing folder that you may read and write",
        ),
    ),
)
@source("npu_attrs.cc CheckPath; guides/facts/aoe.md#aoe-tuning")
def tuning_directory(entry: FlatOptions) -> RuleFindings:
    """While AOE tunes, work_path (default: the working directory) is readable and writable."""
    if tuning_mode(entry) is None:
        return
    path = entry.get("work_path", "./")
    reason = unusable_directory(path)
    if reason:
        yield error(
            f"{option('work_path', path)} {reason}; the adapter aborts the process while tuning."
        )


@RULES.add("graph_compiler_cache_dir")
@source("guides/facts/options.md#graph-cache; manual, ExperimentalConfig Constructor")
def graph_cache_directory(entry: FlatOptions) -> RuleFindings:
    """graph_compiler_cache_dir exists."""
    path = entry.get("graph_compiler_cache_dir")
    if path is not None and not os.path.isdir(path):
        yield error(
            f"{option('graph_compiler_cache_dir', path)} is not an existing folder; compilation "
            "fails.",
            _remedy(path, "does not exist"),
        )


_MADE_DIRECTORIES = ("op_compiler_cache_dir", "debug_dir")


@RULES.add(*_MADE_DIRECTORIES)
@source("guides/facts/options.md#operator-cache; manual, NPURunConfig Options")
def directories_that_are_created(entry: FlatOptions) -> RuleFindings:
    """op_compiler_cache_dir and debug_dir exist or can be created."""
    for key in _MADE_DIRECTORIES:
        path = entry.get(key)
        if path is not None and not _can_be_directory(path):
            yield warning(
                f"{option(key, path)} is not a folder, and you cannot create it.", option=key
            )


def _can_be_directory(path: str) -> bool:
    if os.path.exists(path):
        return os.path.isdir(path) and os.access(path, os.W_OK)
    parent = os.path.dirname(os.path.abspath(path))
    return parent != path and _can_be_directory(parent)


def _given_files(entry: FlatOptions, keys: Iterable[str]) -> Iterator[Tuple[str, str]]:
    """Yield key and path of the files that GE reads, and of AOE's while it tunes."""
    for key in keys:
        path = entry.get(key)
        if not isinstance(path, str):
            continue
        if key not in TUNING_DETAILS or tuning_mode(entry) is not None:
            yield key, path


def _find_missing(entry: FlatOptions, *, may_come: bool) -> RuleFindings:
    """Report files that are not there; it is a warning if they ``may_come`` into their folder."""
    for key, path in _given_files(entry, _FILES):
        written = option(key, path)
        if os.path.isdir(path):
            yield error(f"{written} is a folder; a file is needed.", option=key)
        elif os.path.exists(path):  # /dev/null is an empty file to GE
            continue
        elif may_come and os.path.isdir(os.path.dirname(os.path.abspath(path))):
            yield warning(
                f"{written} does not exist yet; GE fails if it is still missing.", option=key
            )
        else:
            yield error(f"{written} does not exist; GE fails to initialise without it.", option=key)


@RULES.add(*_FILES, "aoe_mode")
@source("guides/facts/option_files.md")
def files_that_ge_reads(entry: FlatOptions) -> RuleFindings:
    """The folder of every file that an option points to exists, AOE's too while it tunes."""
    return _find_missing(entry, may_come=True)


@OPENING_RULES.add(*_FILES, "aoe_mode")
@source("guides/facts/option_files.md")
def files_are_there(entry: FlatOptions) -> RuleFindings:
    """When a system opens, every file that an option points to exists, AOE's while it tunes."""
    return _find_missing(entry, may_come=False)


@RULES.add(
    "profiling_options",
    "profiling_mode",
    ends=(Ends(GE, "prof_acl_mgr.cpp, MsprofResultPathAdapter"),),
)
@source(
    "guides/facts/option_files.md#profiling_options; hicann/runtime, MsprofResultPathAdapter in "
    "prof_acl_mgr.cpp"
)
def profiling_output(entry: FlatOptions) -> RuleFindings:
    """profiling_options or ASCEND_WORK_PATH names a folder; older manuals demand that it exists."""
    if not entry.get("profiling_options") or not entry.is_on("profiling_mode"):
        return  # the adapter's own default names one
    output = profiling_options.profiling_members(entry["profiling_options"]).get("output")
    if output is None and not entry.environ.get("ASCEND_WORK_PATH"):
        yield error(
            "profiling_options name no output and ASCEND_WORK_PATH is not set: the profiler of "
            "newer releases then aborts, and GE with it.",
            'Add "output":"./".',
            option="profiling_options",
        )
    elif output and not os.path.isdir(output):
        hint = _remedy(output, "does not exist")
        yield warning(f"profiling_options: output {output!r} does not exist.", hint)


_AOE = "aoe_config_file"
_MOST_REMARKS = 5


@RULES.add(*TYPE_NAMES, "aoe_mode")
@source("guides/facts/option_files.md; hicann/ge, config parsers")
def files_say_what_ge_reads(entry: FlatOptions) -> RuleFindings:
    """GE, and AOE while it tunes, accepts the files of options, and skips nothing in them."""
    for key, path in _given_files(entry, TYPE_NAMES):
        # That a file is there is for the rules about paths.
        if not os.path.exists(path) or os.path.isdir(path):
            continue
        try:
            # An empty file to GE, which some of its parsers refuse
            is_empty = os.path.realpath(path) == os.devnull
            content = b"" if is_empty else load_file(path, file_type(key).WHAT)
        except ConfigError as error_here:  # GE may read it all the same
            message = f"{key}: its content was not checked: {error_here.message}"
            yield warning(message, option=key)
            continue
        yield from _find_remarks(key, path, content)


def _find_remarks(key: str, path: str, content: bytes) -> Iterator[Finding]:
    """Find what GE refuses or skips in a file."""
    try:
        remarks = file_type(key).check_text(content, path)
    except ConfigError as refusal:
        # AOE's parser is in a closed library: what it refuses is not known for certain.
        report = warning if key == _AOE else error
        for problem in refusal.problems:
            yield report(f"{key}: {problem.message}", problem.hint, option=key)
        return
    for remark in remarks[:_MOST_REMARKS]:
        message = f"{key}: {path}:{remark.place}: {remark.message}"
        yield warning(message, remark.hint, option=key)
    if len(remarks) > _MOST_REMARKS:
        message = f"{key}: {path} has {len(remarks) - _MOST_REMARKS:,} more such remarks."
        hint = f"`ascend-session config check-file {key} {path}` shows them."
        yield warning(message, hint, option=key)


@RULES.add(_AOE, "aoe_mode")
@source("guides/facts/option_files.md#aoe_config_file")
def tuning_features_belong_to_a_mode(entry: FlatOptions) -> RuleFindings:
    """The feature deeper_opat needs aoe_mode 2, nonhomo_split needs aoe_mode 1."""
    mode = tuning_mode(entry)
    file, where = _read_file(entry, _AOE) if mode is not None else (None, "")
    for fault in file.against(mode) if file is not None else ():
        yield error(f"{_AOE}: {where}{fault}", option=_AOE)


@RULES.add("op_debug_config", "op_debug_level")
@source("guides/facts/dumps.md#operator-debugging; guides/facts/dumps.md#data-dump")
def memory_checks_exclude_other_debugging(entry: FlatOptions) -> RuleFindings:
    """The item oom of op_debug_config excludes op_debug_level=2 and NPU_COLLECT_PATH."""
    file, where = _read_file(entry, "op_debug_config")
    if file is None or "oom" not in file.items:
        return
    if entry.get("op_debug_level") == 2:
        yield error(
            f"op_debug_config: {where}oom cannot be used with {option('op_debug_level', 2)}: "
            "operators fail on the device.",
            "Leave op_debug_level out, which is deprecated.",
        )
    if entry.environ.get("NPU_COLLECT_PATH"):
        yield error(
            f"op_debug_config: {where}oom cannot be used while NPU_COLLECT_PATH is set.",
            "Take oom out, or unset NPU_COLLECT_PATH.",
        )


@RULES.add("op_compiler_cache_mode", "op_debug_config", "op_debug_level")
@source("guides/facts/dumps.md#operator-debugging")
def debug_items_disable_the_compile_cache(entry: FlatOptions) -> RuleFindings:
    """An op_debug_config without a list of operators disables the operator compile cache."""
    if entry.get("op_compiler_cache_mode", "disable") == "disable":
        return
    if entry.get("op_debug_level", 0) != 0:  # debugging_disables_the_compile_cache reports it
        return
    file, where = _read_file(entry, "op_debug_config")
    if file is not None and file.items and not (file.names or file.types):
        yield no_effect(
            f"{entry.text('op_compiler_cache_mode')} has no effect: {where}the items of "
            "op_debug_config are for all operators.",
            "Name the operators that you debug in op_debug_list.",
        )


def _read_file(entry: FlatOptions, key: str) -> Tuple[Any, str]:
    """Read the file of an option, if there is one that can be read.

    Returns:
        The file as an object, or None; and the prefix of messages, if the option is a path.
    """
    given = entry.get(key)
    if given is None or is_file(given):
        return given, ""
    try:
        return file_type(key).read(given), f"{given}: "
    except ConfigError:  # files_say_what_ge_reads reports it
        return None, ""

"""The `AscendConfig` with the options of a script's NpuOptimizer entry, as Python text.

``ascend-session run --print-config`` writes it for each session that the script opens: one
expression with the options that have an effect, and comments on those that have none.
"""

import linecache
import os
import pprint
import re
import sys
import textwrap
import warnings
from typing import Any, Dict, Iterable, Iterator, List, Mapping, MutableMapping, Optional, Tuple

from ascend_session.compat.finder import PRINT_VARIABLE
from ascend_session.compat.script_run import current_rank
from ascend_session.compat.verdicts import EntryVerdict, key_of
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import ENTRY_NAME, ZERO, check_value, read_entries
from ascend_session.config.model import ConfigModel
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import OPTIMISES
from ascend_session.config.values import convert_value
from ascend_session.errors import AscendConfigWarning, ConfigError, write_stderr
from ascend_session.findings import Finding
from ascend_session.text import join_words
from ascend_session.user_code import UserLine, is_user_file

_WIDTH = 100  # characters of a line
_INDENT = "    "
_SETS_OPTION = re.compile(r"""parameter_map\[\s*[bu]?["']([^"']+)["']""")


def print_config(
    proto: Any, verdict: EntryVerdict, line: UserLine, printed: MutableMapping[str, str]
) -> None:
    """Print the configuration of a session to the standard error, if PRINT_VARIABLE is set.

    In a job, only rank 0 prints.

    Args:
        proto: The ``tf.ConfigProto`` of the session, or None.
        verdict: The verdict on its entry.
        line: The line of the script that opens the session.
        printed: The texts that were printed, by their places, so that each is printed once; the
            text is added.
    """
    is_asked = os.environ.get(PRINT_VARIABLE, "") not in ("", "0")
    if not is_asked or not verdict.has_entry or current_rank() != 0:
        return
    text = write_config(proto, verdict, _find_source(line))
    place = str(line)
    if printed.get(place) == text:
        return
    first = next((where for where, shown in printed.items() if shown == text), None)
    printed[place] = text
    body = text if first is None else f"# The same as at {first}."
    write_stderr(f"# AscendConfig of the session that {place} opens:\n{body}\n")


def write_config(proto: Any, verdict: EntryVerdict, source: Mapping[str, str]) -> str:
    """Write the configuration as an expression with comments.

    Evaluated with the names of `ascend_session` and ``tf``, it is the configuration, which gives
    the same proto but for what the comments say, and global_jit_level, of which OFF is as good as
    the default. There are only comments
    if the adapter ends the run for an option that is left out, or if no configuration is valid.

    Args:
        proto: The session's ``tf.ConfigProto``.
        verdict: The verdict on its entry.
        source: Places in words, by the vendor's key of the option that the script sets there.
    """
    all_options = options_by_key(AdapterOptions)
    defaults = {k for k in verdict.defaults if verdict.written.get(k) == all_options[k].adapter}
    values = {key: each for key, each in verdict.values.items() if key not in defaults}
    config, dropped = _make_config(values)
    written = {} if config is None else config.parameter_map()
    entries = read_entries(proto)[0]
    misplaced = {key: each for entry in entries for key, each in entry.misplaced.items()}

    def note(finding: Finding) -> str:
        key = key_of(finding)
        meant = _describe_meant(key, verdict) if finding == misplaced.get(key) else ""
        return f"{_place(key, source)}{meant or finding}"

    findings = [*verdict.refused, *verdict.ignored, *verdict.late]
    options = set(all_options) - verdict.defaults
    is_cut = not options & set(verdict.written) <= set(written)
    if config is None or (verdict.refused and is_cut):
        by = "a device aborts the run because of" if verdict.refused else "AscendConfig refuses"
        reasons = verdict.refused or list(dropped.values())
        others = [each for each in findings if each not in reasons]
        return "\n".join(
            [
                *_comment(f"No configuration: {by} these options."),
                *_comments(note(each) for each in reasons),
                *(_comment("What else is wrong with the entry:") if others else ()),
                *_comments(note(each) for each in others),
            ]
        )
    beside: Dict[str, List[str]] = {}
    above: List[str] = []
    for finding in findings:
        key = key_of(finding)
        (beside.setdefault(key, []) if key in written else above).append(note(finding))
    texts = {str(finding) for finding in findings}
    above += [
        f"{_place(key, source)}{key}={values[key]!r} is left out with what it needs."
        for key, finding in dropped.items()
        if str(finding) not in texts
    ]
    if defaults:
        above.append(
            f"{len(defaults)} options that NPUEstimator writes have the values that the adapter "
            "takes without them; they are left out."
        )
    rest, remarks = _find_rest(proto)
    lines = list(_write_part(config, beside))
    if rest is not None:
        text = _write_proto(rest)
        if text is None:
            names = ", ".join(each.name for each, _ in rest.ListFields())
            remarks.append(f"The proto also sets {names}: give it as session_config=.")
        elif len(lines) == 1:  # AscendConfig()
            lines = [f"{type(config).__name__}(", *text, ")"]
        else:
            lines[-1:] = [*text, lines[-1]]
    return "\n".join([*_comments(above), *lines, *_comments(remarks)])


def _make_config(
    values: Mapping[str, Any],
) -> Tuple[Optional[AscendConfig], Dict[str, Finding]]:
    """Make the configuration without the options that it refuses.

    Returns:
        The configuration, and why which option is left out; None, and why, if there is none.
    """
    kept = dict(values)
    dropped: Dict[str, Finding] = {}
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AscendConfigWarning)
                return AscendConfig.from_parameter_map(kept), dropped
        except ConfigError as error:
            problems = {key_of(problem): problem for problem in error.problems}
            refused = {key: problem for key, problem in problems.items() if key in kept}
            if not refused:
                return None, problems
            dropped.update(refused)
            kept = {key: value for key, value in kept.items() if key not in refused}


def _describe_meant(key: str, verdict: EntryVerdict) -> str:
    """Return what the adapter reads of a value in the wrong field, and what was probably meant."""
    option = options_by_key(AdapterOptions)[key]
    meant = convert_value(verdict.written[key], type(ZERO[option.field or "s"]))
    read = verdict.values.get(key)
    if meant is None or meant == read or check_value(key, meant):
        return ""
    return f"the adapter read {read!r}; if {meant!r} was meant, {option.name}={meant!r}"


def _find_rest(proto: Any) -> Tuple[Any, List[str]]:
    """Find what a proto sets besides its entry and what `AscendConfig.to_config_proto` sets.

    Returns:
        The rest as a proto, or None; and remarks on what is other than in a session here.
    """
    if proto is None:
        return None, []
    rest, added = type(proto)(), []
    rest.CopyFrom(proto)
    if not rest.allow_soft_placement:
        added.append("allow_soft_placement=True")
    rest.ClearField("allow_soft_placement")
    optimizer = rest.graph_options.optimizer_options
    if optimizer.global_jit_level == optimizer.OFF:  # npu_init writes it into each session
        optimizer.ClearField("global_jit_level")
    if not optimizer.ListFields():
        rest.graph_options.ClearField("optimizer_options")
    rewriter = rest.graph_options.rewrite_options
    names = [each.name for each in rewriter.custom_optimizers]
    if set(names) <= {ENTRY_NAME}:
        rewriter.ClearField("custom_optimizers")
    else:  # an empty entry keeps its place among them
        first = names.index(ENTRY_NAME)
        rewriter.custom_optimizers[first].ClearField("parameter_map")
        for index in reversed(range(first + 1, len(names))):
            if names[index] == ENTRY_NAME:
                del rewriter.custom_optimizers[index]
    for name in OPTIMISES:
        if getattr(rewriter, name) == 0:
            added.append(f"rewrite_options.{name}=OFF")
        elif getattr(rewriter, name) == rewriter.OFF:
            rewriter.ClearField(name)
    if not rewriter.ListFields():
        rest.graph_options.ClearField("rewrite_options")
    if not rest.graph_options.ListFields():
        rest.ClearField("graph_options")
    remarks = [f"Sessions here also have {join_words(added)}, as in the vendor's samples."]
    return (rest if rest.ListFields() else None), remarks if added else []


def _write_proto(proto: Any) -> Optional[List[str]]:
    """Write a proto as the argument ``session_config``; None if Python cannot build it so."""
    fields = {each.name: _as_arguments(each, value) for each, value in proto.ListFields()}
    try:
        if type(proto)(**fields) != proto:
            return None
    except (AttributeError, TypeError, ValueError):
        return None
    inner = []
    for name, value in fields.items():
        start = f"{name}="
        width = _WIDTH - 2 * len(_INDENT) - len(start) - 1
        first, *others = pprint.pformat(value, width=width).splitlines()
        inner += [f"{start}{first}", *(f"{' ' * len(start)}{line}" for line in others)]
        inner[-1] += ","
    margin = 2 * _INDENT
    lines = [f"{_INDENT}session_config=tf.ConfigProto("]
    return [*lines, *(f"{margin}{line}" for line in inner), f"{_INDENT}),"]


def _as_arguments(field: Any, value: Any) -> Any:
    """Convert a field's value to what the constructor of its message takes."""
    if hasattr(value, "ListFields"):
        return {each.name: _as_arguments(each, inner) for each, inner in value.ListFields()}
    if isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, MutableMapping):
        return {key: _as_arguments(field, inner) for key, inner in value.items()}
    return [_as_arguments(field, inner) for inner in value]


def _write_part(
    part: ConfigModel, notes: Mapping[str, List[str]], name: str = "", depth: int = 0
) -> Iterator[str]:
    """Write a configuration or a part of it, one option on a line."""
    margin, start = _INDENT * depth, f"{name}=" if name else ""
    end = "," if depth else ""
    given = part.given()
    if not given:
        yield f"{margin}{start}{type(part).__name__}(){end}"
        return
    yield f"{margin}{start}{type(part).__name__}("
    keys = {option.name: key for key, option in options_by_key(type(part)).items()}
    for option_name, value in given.items():
        if isinstance(value, ConfigModel):
            yield from _write_part(value, notes, option_name, depth + 1)
            continue
        yield from _comments(notes.get(keys[option_name], ()), depth + 1)
        yield f"{margin}{_INDENT}{option_name}={value!r},"
    yield f"{margin}){end}"


def _comments(texts: Iterable[str], depth: int = 0) -> Iterator[str]:
    """Yield each text once as lines of comment."""
    for text in dict.fromkeys(texts):
        yield from _comment(text, depth)


def _comment(text: str, depth: int = 0) -> List[str]:
    start = f"{_INDENT * depth}# "
    return textwrap.wrap(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=start,
        subsequent_indent=start,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _place(key: str, source: Mapping[str, str]) -> str:
    return f"{source[key]}: " if key in source else ""


def _find_source(line: UserLine) -> Dict[str, str]:
    """Map the vendor's keys to the places, in words, at which the user's files set them."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    others = sorted({file for file in modules if file and is_user_file(file)} - {line.file})
    source: Dict[str, str] = {}
    for file in [line.file, *others]:
        for number, text in enumerate(linecache.getlines(file), 1):
            for key in _SETS_OPTION.findall(text):
                place = f"line {number}" if file == line.file else str(UserLine(file, number))
                source.setdefault(key, place)
    return source

"""op_precision.ini: which implementation of an operator is compiled, by type or by node name.

Each source of modes puts its operators into one table, in which the first entry stays; nodes have a
table of their own, which is looked at first. Nothing in such a file is ever an error to GE: what it
does not know it skips, with a line in its log at most.

Source: hicann/ge, op_impl_mode_config_parser.cc (Initialize, GetOpImplMode,
GetOpPrecisonModeStrFromConfigFile); options notes a31, a32 and f; seeds 000 and 004.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.option_files.base import Frozen, OptionFile, check_text_of, unusable
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import BOM, Kind, Source, lines_of, shortened, trimmed
from ascend_session.text import did_you_mean

_ALL = ("high_precision_for_all", "high_performance_for_all")
_PLAIN = ("high_precision", "high_performance")


class Decision(NamedTuple):
    """What becomes of an operator.

    Attributes:
        mode: Its mode; None if nothing chooses one, so that the operator's own default counts.
        why: What decided, and what was passed over for it, in sentences.
        passed_over: ``(source, mode)`` of each that names the operator and does not count.
    """

    mode: Optional[str]
    why: str
    passed_over: Tuple[Tuple[str, str], ...] = ()


def decide(
    by_type: Mapping[str, str],
    by_node: Mapping[str, str],
    op_type: str,
    node: Optional[str],
    hf32: Mapping[str, str],
    implemented: Optional[Mapping[str, Any]],
) -> Decision:
    """As `OpPrecision.decide`."""
    found = []
    if node is not None and node in by_node:
        found.append((f"the node name {node} below [ByNodeName]", by_node[node]))
    if op_type in hf32:
        found.append(("ENABLE_HF32_EXECUTION", hf32[op_type]))
    if op_type in by_type:
        found.append((f"the type {op_type} below [ByOpType]", by_type[op_type]))
    if not found:
        return Decision(
            None,
            f"Nothing names {op_type}, so that it keeps its own default; op_select_implmode is not "
            "looked at while op_precision_mode is set.",
        )
    (source, mode), rest = found[0], tuple(found[1:])
    why = f"{mode}, by {source}."
    for other, passed in rest:
        why += f" It counts before {other}, which says {passed}."
    missing = not_implemented(op_type, mode, implemented)
    if missing:
        return Decision(None, f"{missing} Asked for is {why}", tuple(found))
    return Decision(mode, why, rest)


def decide_by_select(
    op_type: str,
    op_select_implmode: str,
    optypelist: Tuple[str, ...] = (),
    lists: Optional[Mapping[str, Mapping[str, str]]] = None,
) -> Decision:
    """Which mode op_select_implmode gives an operator, when there is no op_precision_mode.

    Args:
        op_type: The type of the operator.
        op_select_implmode: One of the four modes of that option.
        optypelist: The types of optypelist_for_implmode.
        lists: ``{mode: {operator type: mode}}`` of the toolkit's own lists, ``high_precision.ini``
            and so on, if they are known.

    Raises:
        ConfigError: For a mode that GE refuses.
    """
    mode = op_select_implmode
    if mode not in _ALL + _PLAIN:
        message = f"op_select_implmode={mode!r} is refused by GE."
        hint = f"Write one of {', '.join(_PLAIN + _ALL)}, or better use op_precision_mode."
        raise ConfigError.of([Finding(ERROR, message, hint, option="op_select_implmode")])
    if optypelist and mode in _PLAIN:
        if op_type in optypelist:
            return Decision(mode, f"{mode}, as optypelist_for_implmode names {op_type}.")
        return Decision(None, f"optypelist_for_implmode does not name {op_type}.")
    said = f"the toolkit's list {mode}.ini"
    if optypelist:
        said += f" (optypelist_for_implmode is not looked at with {mode})"
    if lists is None or mode not in lists:
        return Decision(None, f"What {said} says of {op_type} is not known here.")
    found = lists[mode].get(op_type)
    if found is None:
        return Decision(None, f"{op_type} is not in {said}, and keeps its own default.")
    return Decision(found, f"{found}, by {said}.")


def not_implemented(op_type: str, mode: str, implemented: Optional[Mapping[str, Any]]) -> str:
    """Why an operator does not have a mode; empty if it does, or if that is not known."""
    if implemented is None:
        return ""
    if op_type not in implemented:
        return f"{op_type} has one implementation only and keeps it, whatever the mode."
    if mode not in implemented[op_type]:
        known = ", ".join(implemented[op_type])
        return f"{op_type} has no mode {mode} and keeps its default; it knows {known}."
    return ""


# What GE's parser takes, each with its meaning (seed 000; norm_class stands in the parser only)
MODES: Dict[str, str] = {
    "high_precision": "more exact on float16 input, by further iterations",
    "high_performance": "the fastest that does not hurt the accuracy of a network",
    "super_performance": "faster still, by another formula",
    "support_out_of_bound_index": "gather, scatter and segment operators check their indices",
    "keep_fp16": "float16 is kept inside the operator, at the cost of precision",
    "enable_float_32_execution": "computes in float32 (950, A3, A2)",
    "enable_hi_float_32_execution": "computes in HF32 (documented as not supported yet)",
    "norm_class": "known to GE's parser and to no manual",
}
# The sections
BY_TYPE, BY_NODE = "[ByOpType]", "[ByNodeName]"


@dataclass(frozen=True, repr=False)
class OpPrecision(OptionFile):
    """The modes of operators, for ``op_precision_mode``; frozen.

    Attributes:
        by_type: ``{operator type: mode}``.
        by_node: ``{node name: mode}``; a node's own mode counts before that of its type.

    Raises:
        ConfigError: For a mode that GE does not know, which it would skip, and for a name that no
            line can hold.
    """

    by_type: Mapping[str, str] = Frozen({})
    by_node: Mapping[str, str] = Frozen({})

    OPTION: ClassVar[str] = "op_precision_mode"
    NAME: ClassVar[str] = "op_precision.ini"
    KIND: ClassVar[Kind] = Kind("an operator precision file")

    def __post_init__(self) -> None:
        for field in ("by_type", "by_node"):
            modes = getattr(self, field)
            if not isinstance(modes, Mapping):
                raise unusable(self.OPTION, f"{field} is a mapping of modes, not {modes!r}.")
            for name, mode in modes.items():
                _check_entry(name, mode)
            object.__setattr__(self, field, Frozen(modes))

    def set(self, operator: str, mode: str, *, node: bool = False) -> "OpPrecision":
        """The same with another mode for one operator.

        Args:
            operator: Its type, or its node name if ``node``.
            mode: One of `MODES`.
            node: Whether ``operator`` is a node name.

        Raises:
            ConfigError: If GE does not know the mode, or no line can hold the name.
        """
        if node:
            return OpPrecision(self.by_type, {**self.by_node, operator: mode})
        return OpPrecision({**self.by_type, operator: mode}, self.by_node)

    def unset(self, operator: str, *, node: bool = False) -> "OpPrecision":
        """The same without the mode of one operator; nothing changes if it has none."""
        kept = {
            name: mode
            for name, mode in (self.by_node if node else self.by_type).items()
            if name != operator
        }
        return OpPrecision(self.by_type, kept) if node else OpPrecision(kept, self.by_node)

    def decide(
        self,
        op_type: str,
        node: Optional[str] = None,
        *,
        hf32: Optional[Mapping[str, str]] = None,
        implemented: Optional[Mapping[str, Any]] = None,
    ) -> Decision:
        """Which mode an operator finally gets, and why.

        Args:
            op_type: The type of the operator.
            node: Its node name, if it is known.
            hf32: ``{operator type: mode}`` of the toolkit's list for ENABLE_HF32_EXECUTION, if
                that variable is set; it counts before ``by_type``.
            implemented: ``{operator type: modes}`` of the toolkit's all_ops_impl_mode.ini, if it is
                known: a mode that an operator does not have changes nothing.
        """
        return decide(self.by_type, self.by_node, op_type, node, hf32 or {}, implemented)

    def against(self, implemented: Mapping[str, Any]) -> Tuple[str, ...]:
        """Which modes do nothing with an installed toolkit, in sentences; nodes are not looked at.

        Args:
            implemented: ``{operator type: modes}`` of its all_ops_impl_mode.ini.
        """
        found = (not_implemented(name, mode, implemented) for name, mode in self.by_type.items())
        return tuple(fault for fault in found if fault)

    def text(self) -> str:
        """The lines of the file: types first, then nodes."""
        lines = [BY_TYPE, *map(_line, self.by_type.items())]
        if self.by_node:
            lines += [BY_NODE, *map(_line, self.by_node.items())]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        reader = _Reader(findings, fix)
        for number, line in enumerate(lines_of(source.text), 1):
            reader.take(line, number)
        return lambda: cls(reader.modes[BY_TYPE], reader.modes[BY_NODE])


class _Reader:
    """Takes one line after the other."""

    def __init__(self, findings: FileFindings, fix: bool) -> None:
        self.modes: Dict[str, Dict[str, str]] = {BY_TYPE: {}, BY_NODE: {}}
        self._lines: Dict[Tuple[str, str], int] = {}
        self._section = BY_TYPE
        self._findings = findings
        self._fix = fix

    def take(self, line: str, number: int) -> None:
        if not line or line.startswith("#"):
            return
        if self._fix:
            line = trimmed(line[1:] if line.startswith(BOM) else line)
            if not line or line.startswith(("#", ";", "//")):
                return
        if "=" in line:
            self._entry(line, number)
        else:
            self._header(line, number)

    def _header(self, line: str, number: int) -> None:
        found = trimmed(line)
        if found in (BY_TYPE, BY_NODE):
            self._section = found
            return
        meant = {BY_TYPE.lower(): BY_TYPE, BY_NODE.lower(): BY_NODE}.get(found.strip(BOM).lower())
        if self._fix and meant is not None:
            self._section = meant
        if not found:
            return
        here = f"so that the lines below still count as {self._section}."
        if found.startswith(BOM):
            message, hint = f"A byte order mark hides this header from GE, {here}", "Save without."
        elif meant is not None:
            message, hint = f"GE does not know {found!r} as a header, {here}", f"Write {meant}."
        elif found.startswith("["):
            message, hint = f"GE skips {_short(found)}: there is no such section, {here}", ""
        else:
            message, hint = f"GE skips {_short(found)}: it has no '='.", "Write OP=MODE."
        self._findings.skip((number, 1), message, hint or None)

    def _entry(self, line: str, number: int) -> None:
        name, _, mode = line.partition("=")
        name, mode = trimmed(name), trimmed(mode)
        if self._fix and mode not in MODES:
            mode = trimmed(mode.partition("#")[0])
        place = (number, 1 if not mode else line.index(mode, line.index("=") + 1) + 1)
        if not name or not mode:
            what = "operator" if not name else "mode"
            self._findings.skip(place, f"GE skips this line: it names no {what}.")
        elif mode not in MODES:
            self._unknown(name, mode, number, place)
        elif (self._section, name) in self._lines:
            first = self._lines[self._section, name]
            self._findings.skip(
                (number, 1), f"GE skips this line: {name} has a mode in line {first} already."
            )
        else:
            self._remark(name, number)
            self._lines[self._section, name] = number
            self.modes[self._section][name] = mode

    def _unknown(self, name: str, mode: str, number: int, place: Tuple[int, int]) -> None:
        """A mode that GE does not know: with a line in its log it goes on without."""
        message = f"GE skips this line: it knows no mode {_short(mode)}."
        if trimmed(name).startswith((";", "//")):
            self._findings.skip((number, 1), message, "A comment begins with # in column 1.")
        elif "#" in mode:
            hint = "A comment stands on a line of its own, with # in column 1."
            self._findings.skip(place, message, hint)
        else:
            self._findings.skip(place, message, functools.partial(mode_hint, mode))

    def _remark(self, name: str, number: int) -> None:
        if name.startswith(BOM):
            self._findings.skip(
                (number, 1), "A byte order mark is part of this name for GE.", "Save without."
            )
        elif name.startswith(("#", ";", "//")):
            self._findings.skip(
                (number, 1),
                f"This is no comment but the operator {_short(name)}, which no graph has.",
                "A comment begins with # in column 1.",
            )
        elif self._section == BY_TYPE and "/" in name:
            self._findings.skip(
                (number, 1),
                f"{_short(name)} looks like a node name and stands among the types.",
                f"Write it below {BY_NODE}.",
            )


def _check_entry(name: object, mode: object) -> None:
    option = OpPrecision.OPTION
    if not isinstance(mode, str) or mode not in MODES:
        raise unusable(
            option, f"{name!r}: {mode!r} is no mode that GE knows.", mode_hint(str(mode))
        )
    if not isinstance(name, str) or not name or trimmed(name) != name or set(name) & set("=\n"):
        raise unusable(
            option,
            f"{name!r} cannot stand in {OpPrecision.NAME}: a name is one line without '=' and "
            "without blanks at its ends.",
        )
    check_text_of(option, repr(name), name)


def _line(entry: Tuple[str, str]) -> str:
    name, mode = entry
    return f"{' ' if name.startswith('#') else ''}{name}={mode}"


@functools.lru_cache(maxsize=1024)
def mode_hint(mode: str) -> str:
    """What to write instead of a mode that GE does not know."""
    near = did_you_mean(mode.lower(), MODES)
    return f"Write {near}." if near else f"The modes are {', '.join(MODES)}."


def _short(text: str) -> str:
    return repr(shortened(text))


def with_mode(text: str, operator: str, mode: str, *, node: bool = False) -> str:
    """``text`` with another mode for one operator.

    The line that counts for it is changed; if there is none, a line is added at the end of its
    section. Comments, and lines that GE skips, stay.

    Args:
        text: The content of the file.
        operator: Its type, or its node name if ``node``.
        mode: One of `MODES`.
        node: Whether ``operator`` is a node name.

    Raises:
        ConfigError: If GE does not know the mode, or no line can hold the name.
    """
    wanted = OpPrecision.parse(text).set(operator, mode, node=node)
    lines = text.split("\n")
    at, end = _places(lines, operator, BY_NODE if node else BY_TYPE)
    feed = "\r" if lines[0].endswith("\r") else ""
    shown = f" {operator}" if operator.startswith("#") else operator
    line = f"{shown}={mode}{feed}"
    if at is not None:
        lines[at] = line
    elif end is not None:
        lines.insert(end, line)
    else:
        lines = _appended(lines, f"{BY_NODE if node else BY_TYPE}{feed}", line)
    changed = "\n".join(lines)
    if OpPrecision.parse(changed) != wanted:
        raise ConfigError(f"The mode of {operator!r} cannot be changed in this file by itself.")
    return changed


def _places(lines: List[str], operator: str, section: str) -> Tuple[Optional[int], Optional[int]]:
    """The line that counts for the operator, and where a new one of its section may stand."""
    current = BY_TYPE
    end: Optional[int] = 0 if section == BY_TYPE else None
    for number, line in enumerate(lines):
        if line.startswith("#") or not trimmed(line):
            continue
        name, equals, mode = line.partition("=")
        if not equals:
            current = trimmed(line) if trimmed(line) in (BY_TYPE, BY_NODE) else current
        elif current == section and trimmed(name) == operator and trimmed(mode) in MODES:
            return number, end
        if current == section:
            end = number + 1
    if end == 0 and any(map(trimmed, lines)):  # only comments, or the other section, stand there
        end = None
    return None, end


def _appended(lines: List[str], header: str, line: str) -> List[str]:
    """The lines with a section of its own at the end."""
    kept = lines[:-1] if not lines[-1] else lines
    return [*kept, header, line, ""]

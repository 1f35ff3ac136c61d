"""Which implementation mode an operator finally gets, and why.

Source: hicann/ge, op_impl_mode_config_parser.cc (Initialize, GetOpImplMode): each source puts its
operators into one table, in which the first entry stays; nodes have a table of their own, which is
looked at first. Options notes a31, a32 and f; seed 004.
"""

from typing import Any, Mapping, NamedTuple, Optional, Tuple

from ascend_session.errors import ConfigError, Problem

__all__ = ["Decision", "decide", "decide_by_select", "not_implemented"]

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
        raise ConfigError.of([Problem("op_select_implmode", message, hint)])
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

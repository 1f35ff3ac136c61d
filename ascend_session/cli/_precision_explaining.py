"""Which mode an operator gets: the file, the toolkit's lists and the options put together.

Source: hicann/ge, op_impl_mode_config_parser.cc (HasNewAllowHF32Files, InitAllowHF32LegacyFiles:
the lists for HF32, whose operators count before all types; of the two digits the first is for
convolutions, the second for matrix products; newer toolkits have lists that do not go by them.
Initialize: without ENABLE_HF32_EXECUTION the default list is loaded last, and by newer releases
first as well).
"""

import glob
import os
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple

import typer

from ascend_session.cli._precision_lists import Lists, find_lists, list_path

if TYPE_CHECKING:
    from ascend_session.option_files import Decision

__all__ = ["explained"]

_HF32 = {
    "00": "allow_hf32_matmul_f_conv_f.ini",
    "01": "allow_hf32_matmul_t_conv_f.ini",
    "10": "allow_hf32_matmul_f_conv_t.ini",
    "11": "allow_hf32_matmul_t_conv_t.ini",
}
_DEFAULT = "10"  # kAllowHF32DefaultMode
_NEW_HF32 = os.path.join("..", "..", "config", "allow_hf32", "ops_allow_hf32_*.ini")


def explained(
    name: Optional[str],
    op: str,
    node: Optional[str],
    hf32: Optional[str],
    select: Tuple[Optional[str], Optional[str]],
    toolkit: Optional[str],
) -> "Decision":
    """The decision for one operator.

    Args:
        name: The file of op_precision_mode; None if that is not set.
        op: The type.
        node: The name in the graph, if it is known.
        hf32: Two digits, as `_HF32` has them; None if that is not on.
        select: op_select_implmode and optypelist_for_implmode.
        toolkit: Where to look for its lists.

    Raises:
        ConfigError: If a file cannot be read, or GE refuses the options.
    """
    from ascend_session.option_files import OpPrecision

    if hf32 is not None and hf32 not in _HF32:
        raise typer.BadParameter(f"{hf32} is not one of {', '.join(_HF32)}.", param_hint="--hf32")
    lists = find_lists(toolkit)
    mode, types = select
    modes = {} if hf32 is None else _hf32_modes(hf32, lists)
    note = _of_default(op, lists) if hf32 is None else ""
    if name is None:
        if op in modes:
            return OpPrecision().decide(op, hf32=modes, implemented=lists.implemented)
        chosen = _selected(op, mode or "", types or "", lists)
        return chosen._replace(why=f"{chosen.why}{note}")
    made = OpPrecision.read(name)
    decision = made.decide(op, node, hf32=modes, implemented=lists.implemented)
    if node not in made.by_node:
        decision = decision._replace(why=f"{decision.why}{note}")
    if mode is None or "op_select_implmode" in decision.why:
        return decision
    more = f"op_select_implmode={mode} is not looked at while op_precision_mode is set."
    return decision._replace(why=f"{decision.why} {more}")


def _selected(op: str, mode: str, types: str, lists: Lists) -> "Decision":
    """What op_select_implmode gives."""
    from ascend_session.option_files import decide_by_select
    from ascend_session.option_files.op_precision import not_implemented

    listed = tuple(word.strip() for word in types.split(",") if word.strip())
    decision = decide_by_select(op, mode, listed, _lists_of(mode, lists))
    missing = not_implemented(op, decision.mode or "", lists.implemented)
    if decision.mode is None or not missing:
        return decision
    passed = (("op_select_implmode", decision.mode),)
    return decision._replace(
        mode=None, why=f"{missing} Asked for is {decision.why}", passed_over=passed
    )


def _hf32_modes(bits: str, lists: Lists) -> Dict[str, str]:
    """The operators that the toolkit names for HF32."""
    from ascend_session.option_files import OpPrecision

    found: Dict[str, str] = {}
    for path in _new_hf32(lists) or [list_path(_HF32[bits], lists)]:
        found.update(OpPrecision.read(path).by_type)
    return found


def _new_hf32(lists: Lists) -> List[str]:
    """The lists of newer toolkits, which have one for each package of operators."""
    place = os.path.join(glob.escape(lists.folder or ""), _NEW_HF32)
    return sorted(glob.glob(place)) if lists.folder is not None else []


def _of_default(op: str, lists: Lists) -> str:
    """What there is to add as long as nothing is said of HF32; empty if the operator has none."""
    legacy = os.path.join(lists.folder or "", _HF32[_DEFAULT])
    known = lists.folder is not None and (_new_hf32(lists) or os.path.isfile(legacy))
    mode = _hf32_modes(_DEFAULT, lists).get(op) if known else None
    if mode is None:
        return ""
    return (
        f" On devices with HF32, GE's default for it gives {op} {mode}: some releases let that "
        "count first, others only where nothing else names the operator. --hf32 says which is set."
    )


def _lists_of(mode: str, lists: Lists) -> Optional[Dict[str, Mapping[str, str]]]:
    """The toolkit's own list of a mode, if it has one."""
    from ascend_session.option_files import OpPrecision

    path = os.path.join(lists.folder or "", f"{mode}.ini")
    if lists.folder is None or not os.path.isfile(path):
        return None
    return {mode: OpPrecision.read(path).by_type}

"""Which mode an operator gets: the file, the toolkit's lists and the options put together.

Source: hicann/ge, op_impl_mode_config_parser.cc (names of the lists for HF32; the first number is
for convolutions, the second one for matrix products).
"""

import os
from typing import TYPE_CHECKING, Dict, Mapping, Optional, Tuple

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
    from ascend_session.option_files import OpPrecision, decide_by_select

    if hf32 is not None and hf32 not in _HF32:
        raise typer.BadParameter(f"{hf32} is not one of {', '.join(_HF32)}.", param_hint="--hf32")
    lists = find_lists(toolkit)
    mode, types = select
    if name is None:
        listed = tuple(word.strip() for word in (types or "").split(",") if word.strip())
        return decide_by_select(op, mode or "", listed, _lists_of(mode or "", lists))
    modes = {} if hf32 is None else OpPrecision.read(list_path(_HF32[hf32], lists)).by_type
    made = OpPrecision.read(name)
    decision = made.decide(op, node, hf32=modes, implemented=lists.implemented)
    if mode is None or "op_select_implmode" in decision.why:
        return decision
    more = f"op_select_implmode={mode} is not looked at while op_precision_mode is set."
    return decision._replace(why=f"{decision.why} {more}")


def _lists_of(mode: str, lists: Lists) -> Optional[Dict[str, Mapping[str, str]]]:
    """The toolkit's own list of a mode, if it has one."""
    from ascend_session.option_files import OpPrecision

    path = os.path.join(lists.folder or "", f"{mode}.ini")
    if lists.folder is None or not os.path.isfile(path):
        return None
    return {mode: OpPrecision.read(path).by_type}

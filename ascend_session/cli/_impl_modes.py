"""Implementation modes: the toolkit's lists of them, and which one an operator finally gets.

Source: hicann/ge, op_impl_mode_config_parser.cc (HasNewAllowHF32Files, InitAllowHF32LegacyFiles:
the lists for HF32, whose operators count before all types; of the two digits the first is for
convolutions, the second for matrix products; newer toolkits have lists that do not go by them.
Initialize: without ENABLE_HF32_EXECUTION the default list is loaded last, and by newer releases
first as well).
"""

import glob
import os
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Tuple

import typer

from ascend_session.errors import ConfigError

if TYPE_CHECKING:
    from ascend_session.option_files import Decision

_NO_TOOLKIT = "This machine has no toolkit with lists of implementation modes."
_HF32 = {
    "00": "allow_hf32_matmul_f_conv_f.ini",
    "01": "allow_hf32_matmul_t_conv_f.ini",
    "10": "allow_hf32_matmul_f_conv_t.ini",
    "11": "allow_hf32_matmul_t_conv_t.ini",
}
_DEFAULT_HF32 = "10"  # kAllowHF32DefaultMode
_NEW_HF32 = os.path.join("..", "..", "config", "allow_hf32", "ops_allow_hf32_*.ini")


class ModeLists(NamedTuple):
    """The toolkit's lists of implementation modes.

    Attributes:
        folder: Where they are; None if there is no toolkit.
        implemented: ``{operator type: modes}`` of all_ops_impl_mode.ini; None if that is not there.
        missing: Why it is not, in a sentence.
    """

    folder: Optional[str]
    implemented: Optional[Dict[str, Tuple[str, ...]]]
    missing: Optional[str] = None


def find_lists(toolkit: Optional[str]) -> ModeLists:
    """Look into ``toolkit``, or where the host has one.

    Raises:
        ConfigError: If the list of all modes cannot be read.
    """
    from ascend_session.hardware.installation import ALL_MODES, impl_mode_folder
    from ascend_session.hardware.nodes import host_root
    from ascend_session.option_files import implemented_modes

    folder = impl_mode_folder(os.environ, host_root(os.environ), toolkit)
    if folder is None and toolkit is not None:
        raise typer.BadParameter(f"{toolkit} has no lists of modes.", param_hint="--toolkit")
    if folder is None:
        return ModeLists(None, None, _NO_TOOLKIT)
    path = os.path.join(folder, ALL_MODES)
    if not os.path.exists(path):
        return ModeLists(folder, None, f"{folder} has no {ALL_MODES}.")
    return ModeLists(folder, implemented_modes(path))


def find_list(name: str, lists: ModeLists) -> str:
    """Give the path of a list that is named as one of the toolkit's, or by its own path.

    Raises:
        ConfigError: If there is no such file.
    """
    if os.path.dirname(name) or os.path.exists(name):
        return name
    if lists.folder is None:
        hint = "Give the path of a file, or --toolkit, or source the toolkit's set_env.sh."
        raise ConfigError(f"There is no file {name}. {_NO_TOOLKIT}", hint=hint)
    known = sorted(file for file in os.listdir(lists.folder) if file.endswith(".ini"))
    for file in (name, f"{name}.ini"):
        if file in known:
            return os.path.join(lists.folder, file)
    raise ConfigError(f"{lists.folder} has no {name}.", hint=f"It has {', '.join(known)}.")


def decide_mode(
    name: Optional[str],
    op: str,
    node: Optional[str] = None,
    hf32: Optional[str] = None,
    select: Optional[str] = None,
    types: Optional[str] = None,
    toolkit: Optional[str] = None,
) -> "Decision":
    """Decide which mode an operator gets, by the file, the toolkit's lists and the options.

    Args:
        name: The file of op_precision_mode; None if that is not set.
        op: The operator's type.
        node: Its name in the graph, if that is known.
        hf32: Two digits, as `_HF32` has them; None if that is not on.
        select: The option op_select_implmode.
        types: The option optypelist_for_implmode.
        toolkit: Where to look for its lists.

    Raises:
        ConfigError: If a file cannot be read, or GE refuses the options.
    """
    from ascend_session.option_files import OpPrecision

    if hf32 is not None and hf32 not in _HF32:
        raise typer.BadParameter(f"{hf32} is not one of {', '.join(_HF32)}.", param_hint="--hf32")
    lists = find_lists(toolkit)
    modes = {} if hf32 is None else _read_hf32_modes(hf32, lists)
    note = _describe_default(op, lists) if hf32 is None else ""
    if name is None:
        if op in modes:
            return OpPrecision().decide(op, hf32=modes, implemented=lists.implemented)
        decision = _decide_by_select(op, select or "", types or "", lists)
        return decision._replace(why=f"{decision.why}{note}")
    precision = OpPrecision.read(name)
    decision = precision.decide(op, node, hf32=modes, implemented=lists.implemented)
    if node not in precision.by_node:
        decision = decision._replace(why=f"{decision.why}{note}")
    if select is None or "op_select_implmode" in decision.why:
        return decision
    more = f"op_select_implmode={select} is ignored while op_precision_mode is set."
    return decision._replace(why=f"{decision.why} {more}")


def _decide_by_select(op: str, mode: str, types: str, lists: ModeLists) -> "Decision":
    from ascend_session.option_files import OpPrecision, decide_by_select
    from ascend_session.option_files.op_precision import find_missing_mode

    listed = tuple(word.strip() for word in types.split(",") if word.strip())
    path = None if lists.folder is None else os.path.join(lists.folder, f"{mode}.ini")
    own = {mode: OpPrecision.read(path).by_type} if path and os.path.isfile(path) else None
    decision = decide_by_select(op, mode, listed, own)
    missing = find_missing_mode(op, decision.mode or "", lists.implemented)
    if decision.mode is None or not missing:
        return decision
    return decision._replace(
        mode=None,
        why=f"{missing} The choice was {decision.why}",
        passed_over=(("op_select_implmode", decision.mode),),
    )


def _read_hf32_modes(bits: str, lists: ModeLists) -> Dict[str, str]:
    """Read the operators that the toolkit names for HF32."""
    from ascend_session.option_files import OpPrecision

    modes: Dict[str, str] = {}
    for path in _find_new_hf32(lists) or [find_list(_HF32[bits], lists)]:
        modes.update(OpPrecision.read(path).by_type)
    return modes


def _find_new_hf32(lists: ModeLists) -> List[str]:
    """Find the lists of newer toolkits, which have one for each package of operators."""
    if lists.folder is None:
        return []
    return sorted(glob.glob(os.path.join(glob.escape(lists.folder), _NEW_HF32)))


def _describe_default(op: str, lists: ModeLists) -> str:
    """Describe the default for HF32; empty if the toolkit has none for the operator."""
    legacy = os.path.join(lists.folder or "", _HF32[_DEFAULT_HF32])
    is_known = lists.folder is not None and (_find_new_hf32(lists) or os.path.isfile(legacy))
    mode = _read_hf32_modes(_DEFAULT_HF32, lists).get(op) if is_known else None
    if mode is None:
        return ""
    return (
        f" On devices with HF32, GE's default for it gives {op} {mode}: some releases let that "
        "count first, others only where nothing else names the operator. --hf32 says which is set."
    )

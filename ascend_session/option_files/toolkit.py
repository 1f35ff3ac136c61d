"""What an installed toolkit says about its operators; read only, and from any root.

Sources: options notes c and f; the vendor's build scripts, which read all_ops_impl_mode.ini as
``Type=mode,mode`` (hicann, gen_opcinfo); seed 000 for ``precision_reduce`` in the ops-info files.
"""

import json
import os
from typing import Dict, Tuple

from ascend_session.errors import ConfigError
from ascend_session.option_files.base import PathLike
from ascend_session.option_files.source import Kind, decoded, lines_of, read_content, trimmed

__all__ = ["built_in_lists", "implemented_modes"]

_MODES = Kind("the toolkit's list of modes")
_OPS_INFO = Kind("the toolkit's list of operators")
_LIST_OF = {"true": "white-list", "false": "black-list"}


def implemented_modes(path: PathLike) -> Dict[str, Tuple[str, ...]]:
    """``{operator type: its modes}`` of all_ops_impl_mode.ini; others have one mode only.

    Raises:
        ConfigError: If the file cannot be read.
    """
    name = os.fspath(path)
    found: Dict[str, Tuple[str, ...]] = {}
    for line in lines_of(decoded(name, read_content(name, _MODES)).text):
        operator, equals, modes = line.partition("=")
        if equals and not line.startswith("#"):
            known = tuple(trimmed(mode) for mode in modes.split(",") if trimmed(mode))
            found.setdefault(trimmed(operator), known)
    return found


def built_in_lists(path: PathLike) -> Dict[str, str]:
    """``{operator type: list}`` of an ``aic-<soc>-ops-info.json``, for `MixList.against`.

    Raises:
        ConfigError: If the file cannot be read, or is no JSON object of operators.
    """
    name = os.fspath(path)
    text = decoded(name, read_content(name, _OPS_INFO)).text
    try:
        operators = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: this is not JSON: {error}.") from None
    if not isinstance(operators, dict):
        raise ConfigError(f"{name}: is no JSON object of operators.")
    found: Dict[str, str] = {}
    for operator, facts in operators.items():
        reduce = facts.get("precision_reduce") if isinstance(facts, dict) else None
        flag = reduce.get("flag") if isinstance(reduce, dict) else None
        found[operator] = _LIST_OF.get(str(flag).lower(), "gray-list")
    return found

"""What an installed toolkit says about its operators; read only, and from any root.

Sources: the vendor's build scripts, which read all_ops_impl_mode.ini as ``Type=mode,mode`` (hicann,
gen_opcinfo); guides/facts/option_files.md#lists-of-a-toolkit for ``precision_reduce`` in the
ops-info files.
"""

import json
import os
from typing import Dict, Tuple

from ascend_session.errors import ConfigError
from ascend_session.files import load_file
from ascend_session.option_files.base import PathLike
from ascend_session.option_files.source import split_lines, trim

_LIST_OF_FLAG = {"true": "white-list", "false": "black-list"}


def implemented_modes(path: PathLike) -> Dict[str, Tuple[str, ...]]:
    """Read ``{operator type: its modes}`` of all_ops_impl_mode.ini; others have one mode only.

    Raises:
        ConfigError: If the file cannot be read.
    """
    modes_by_type: Dict[str, Tuple[str, ...]] = {}
    for line in split_lines(_read_text(path, "the toolkit's list of modes")):
        operator, equals, modes = line.partition("=")
        if equals and not line.startswith("#"):
            known = tuple(trim(mode) for mode in modes.split(",") if trim(mode))
            modes_by_type.setdefault(trim(operator), known)
    return modes_by_type


def built_in_lists(path: PathLike) -> Dict[str, str]:
    """Read ``{operator type: list}`` of an ``aic-<soc>-ops-info.json``, for `MixList.against`.

    Raises:
        ConfigError: If the file cannot be read, or is no JSON object of operators.
    """
    name = os.fspath(path)
    try:
        operators = json.loads(_read_text(path, "the toolkit's list of operators"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{name}: this is not JSON: {error}.") from None
    if not isinstance(operators, dict):
        raise ConfigError(f"{name}: is no JSON object of operators.")
    list_by_type: Dict[str, str] = {}
    for operator, facts in operators.items():
        reduce = facts.get("precision_reduce") if isinstance(facts, dict) else None
        flag = reduce.get("flag") if isinstance(reduce, dict) else None
        list_by_type[operator] = _LIST_OF_FLAG.get(str(flag).lower(), "gray-list")
    return list_by_type


def _read_text(path: PathLike, what: str) -> str:
    return load_file(os.fspath(path), what).decode("utf-8", "surrogateescape")

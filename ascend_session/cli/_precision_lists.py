"""The toolkit's lists of implementation modes, as the ``precision`` commands need them."""

import os
from typing import Dict, NamedTuple, Optional, Tuple

import typer

from ascend_session.errors import ConfigError

__all__ = ["Lists", "find_lists", "list_path"]

_NO_TOOLKIT = "No toolkit with lists of implementation modes was found here."
_HINT = "Name it with --toolkit, or source its set_env.sh."


class Lists(NamedTuple):
    """What the toolkit says.

    Attributes:
        folder: Where its lists are; None if there is no toolkit.
        implemented: ``{operator type: modes}`` of all_ops_impl_mode.ini; None if that is not there.
        missing: Why it is not, in a sentence.
    """

    folder: Optional[str]
    implemented: Optional[Dict[str, Tuple[str, ...]]]
    missing: Optional[str] = None


def find_lists(toolkit: Optional[str]) -> Lists:
    """Looks into ``toolkit``, or where the host has one.

    Raises:
        ConfigError: If the list of all modes cannot be read.
    """
    from ascend_session.hardware.nodes import host_root
    from ascend_session.hardware.operators import ALL_MODES, impl_mode_folder
    from ascend_session.option_files import implemented_modes

    folder = impl_mode_folder(os.environ, host_root(os.environ), toolkit)
    if folder is None and toolkit is not None:
        raise typer.BadParameter(f"{toolkit} has no lists of modes.", param_hint="--toolkit")
    if folder is None:
        return Lists(None, None, _NO_TOOLKIT)
    path = os.path.join(folder, ALL_MODES)
    if not os.path.exists(path):
        return Lists(folder, None, f"{folder} has no {ALL_MODES}.")
    return Lists(folder, implemented_modes(path))


def list_path(name: str, lists: Lists) -> str:
    """The path of a list that is named as one of the toolkit's, or by its own path.

    Raises:
        ConfigError: If there is no such file.
    """
    if os.path.dirname(name) or os.path.exists(name):
        return name
    if lists.folder is None:
        raise ConfigError(f"{name}: is not there. {_NO_TOOLKIT}", hint=_HINT)
    known = sorted(one for one in os.listdir(lists.folder) if one.endswith(".ini"))
    for wanted in (name, f"{name}.ini"):
        if wanted in known:
            return os.path.join(lists.folder, wanted)
    raise ConfigError(f"{lists.folder} has no {name}.", hint=f"It has {', '.join(known)}.")

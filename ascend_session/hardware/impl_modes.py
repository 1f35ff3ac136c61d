"""Where the installed toolkit has its lists of implementation modes.

Sources: seed 004 (``${INSTALL_DIR}/opp/built-in/op_impl/ai_core/tbe/impl_mode``; the toolkit of a
user is in ``$HOME/Ascend``); hicann/ge, op_impl_mode_config_parser.cc (below ASCEND_OPP_PATH).
"""

import os
from typing import Iterator, Mapping, Optional

from ascend_session.hardware.operators import OPP_VARIABLE
from ascend_session.hardware.versions import TOOLKIT_VARIABLES, below

__all__ = ["ALL_MODES", "impl_mode_folder"]

ALL_MODES = "all_ops_impl_mode.ini"

_BELOW_OPP = os.path.join("built-in", "op_impl", "ai_core", "tbe", "impl_mode")
_PLACES = (
    "usr/local/Ascend/ascend-toolkit/latest",
    "usr/local/Ascend/cann",
    "usr/local/Ascend/latest",
)


def impl_mode_folder(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Optional[str]:
    """The folder with the lists, None if there is none.

    Args:
        environ: Its ``ASCEND_OPP_PATH``, ``ASCEND_TOOLKIT_HOME``, ``ASCEND_HOME_PATH`` and ``HOME``
            say where to look.
        root: Root of the host.
        toolkit: Where to look instead: the toolkit, its ``opp`` or the folder itself.
    """
    places = _of_host(environ, root) if toolkit is None else _of_toolkit(toolkit)
    return next((os.path.normpath(place) for place in places if os.path.isdir(place)), None)


def _of_toolkit(toolkit: str) -> Iterator[str]:
    yield os.path.join(toolkit, "opp", _BELOW_OPP)
    yield os.path.join(toolkit, _BELOW_OPP)
    if os.path.basename(os.path.normpath(toolkit)) == "impl_mode":
        yield toolkit


def _of_host(environ: Mapping[str, str], root: str) -> Iterator[str]:
    if environ.get(OPP_VARIABLE):
        yield os.path.join(root, below(root, environ[OPP_VARIABLE]), _BELOW_OPP)
    homes = [below(root, environ[name]) for name in TOOLKIT_VARIABLES if environ.get(name)]
    user = environ.get("HOME")
    own = [below(root, os.path.join(user, "Ascend/ascend-toolkit/latest"))] if user else []
    for home in (*homes, *_PLACES, *own):
        yield os.path.join(root, home, "opp", _BELOW_OPP)

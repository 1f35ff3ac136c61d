"""Where the installed toolkit has its lists of operators.

Sources: seed 004 (``${INSTALL_DIR}/opp/built-in/op_impl/ai_core/tbe/impl_mode``; the toolkit of a
user is in ``$HOME/Ascend``); seed 000 (``config/<soc_version>/aic-<soc_version>-ops-info.json``
beside it); hicann/ge, op_impl_mode_config_parser.cc (below ASCEND_OPP_PATH).
"""

import glob
import os
from typing import Dict, Iterator, Mapping, Optional, Tuple

from ascend_session.hardware.operators import OPP_VARIABLE
from ascend_session.hardware.versions import TOOLKIT_VARIABLES, below

__all__ = ["ALL_MODES", "impl_mode_folder", "ops_info_files"]

ALL_MODES = "all_ops_impl_mode.ini"

_BELOW_OPP = os.path.join("built-in", "op_impl", "ai_core", "tbe")
_IMPL_MODE, _CONFIG = "impl_mode", "config"
_OPS_INFO = "aic-*ops-info*.json"
_PLACES = (
    "usr/local/Ascend/ascend-toolkit/latest",
    "usr/local/Ascend/cann",
    "usr/local/Ascend/latest",
)


def impl_mode_folder(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Optional[str]:
    """The folder with the lists of implementation modes, None if there is none.

    Args:
        environ: Its ``ASCEND_OPP_PATH``, ``ASCEND_TOOLKIT_HOME``, ``ASCEND_HOME_PATH`` and ``HOME``
            say where to look.
        root: Root of the host.
        toolkit: Where to look instead: the toolkit, its ``opp`` or the folder itself.
    """
    return _folder(environ, root, toolkit, _IMPL_MODE)


def ops_info_files(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Dict[str, Tuple[str, ...]]:
    """The files that describe operators, ``{kind of processor: files}``; see `impl_mode_folder`."""
    folder = _folder(environ, root, toolkit, _CONFIG)
    found: Dict[str, Tuple[str, ...]] = {}
    for soc in sorted(os.listdir(folder)) if folder is not None else ():
        place = os.path.join(glob.escape(os.path.join(folder or "", soc)), _OPS_INFO)
        files = tuple(sorted(glob.glob(place)))
        found.update({soc: files} if files else {})
    return found


def _folder(
    environ: Mapping[str, str], root: str, toolkit: Optional[str], name: str
) -> Optional[str]:
    if toolkit is None:
        places = [os.path.join(opp, _BELOW_OPP, name) for opp in _opp_of_host(environ, root)]
    else:
        places = [os.path.join(toolkit, opp, _BELOW_OPP, name) for opp in ("opp", "")]
        is_itself = os.path.basename(os.path.normpath(toolkit)) == name
        places += [toolkit] if is_itself else []
    return next((os.path.normpath(place) for place in places if os.path.isdir(place)), None)


def _opp_of_host(environ: Mapping[str, str], root: str) -> Iterator[str]:
    if environ.get(OPP_VARIABLE):
        yield os.path.join(root, below(root, environ[OPP_VARIABLE]))
    homes = [below(root, environ[name]) for name in TOOLKIT_VARIABLES if environ.get(name)]
    user = environ.get("HOME")
    own = [below(root, os.path.join(user, "Ascend/ascend-toolkit/latest"))] if user else []
    for home in (*homes, *_PLACES, *own):
        yield os.path.join(root, home, "opp")

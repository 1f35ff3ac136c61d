"""Where AOE keeps what it has found: the custom repository, by its priority.

Source: seed 003 (custom repositories); options_notes b; the vendor's manual, TUNE_BANK_PATH: what
was set while tuning has to be set when the result is used, too.
"""

import os
from typing import Mapping, NamedTuple, Optional

from ascend_session.aoe.machine import home_of
from ascend_session.config.tuning import MODES, mode_number

__all__ = ["BANK", "CACHE", "Repository", "repository_of"]

BANK, CACHE = "TUNE_BANK_PATH", "ASCEND_CACHE_PATH"

_SOC = "${soc_version}"


class Repository(NamedTuple):
    """The custom repository of one mode.

    Attributes:
        path: Its folder, absolute. The last part is ``${soc_version}`` where that is not known.
        base: What the variable names; the home directory if no variable is set.
        variable: ``TUNE_BANK_PATH`` or ``ASCEND_CACHE_PATH``; None if neither is set.
    """

    path: str
    base: str
    variable: Optional[str]

    @property
    def exists(self) -> bool:
        """Whether something may be in it; for an unknown processor, whether any is there."""
        path = os.path.dirname(self.path) if self.path.endswith(_SOC) else self.path
        return os.path.isdir(path)


def repository_of(
    mode: str, environ: Mapping[str, str], soc_version: Optional[str] = None
) -> Repository:
    """The repository that a run with this environment writes when it tunes, and reads afterwards.

    Args:
        mode: ``"operator"`` or ``"subgraph"``, or the manual's number; gradients have none.
        environ: The environment of the run.
        soc_version: As ``Ascend910B3``; None if it is not known.

    Raises:
        ConfigError: If it is no mode of AOE.
        ValueError: For gradients.
    """
    number = mode_number(mode)
    if number == MODES["gradient"]:
        raise ValueError("Gradient tuning has no repository: its result goes into the script.")
    is_operator = number == MODES["operator"]
    soc = soc_version or _SOC
    variable = next((name for name in (BANK, CACHE) if environ.get(name)), None)
    if variable is None:
        base, kind = home_of(environ), "op" if is_operator else "graph"
        parts = ["Ascend", "latest", "data", "aoe", "custom", kind, soc]
    else:
        base = environ[variable]
        parts = ["aoe_data"] * (variable == CACHE) + [soc] * is_operator
    base = os.path.abspath(base)
    return Repository(os.path.join(base, *parts), base, variable)

"""What a fusion switch file can say.

Source: hicann/ge, fusion_config_parser.cc (JudgePriority: the limits of a user's priorities).
"""

from typing import Dict, List

__all__ = ["ALL", "GRAPH", "LEVELS", "UB", "FusionParts", "level_of"]

ALL = "ALL"
GRAPH = "GraphFusion"
UB = "UBFusion"
LEVELS = {"Top": range(1000), "Main": range(1000, 2000), "Down": range(2000, 3000)}


class FusionParts:
    """Collects what a file says.

    Attributes:
        switches: ``{GRAPH or UB: {pass: whether it runs}}``.
        priorities: ``{GRAPH or UB: {pass: priority}}``.
        kept: Passes that run at O1 all the same.
    """

    def __init__(self) -> None:
        self.switches: Dict[str, Dict[str, bool]] = {GRAPH: {}, UB: {}}
        self.priorities: Dict[str, Dict[str, int]] = {GRAPH: {}, UB: {}}
        self.kept: List[str] = []


def level_of(priority: int) -> str:
    """The level that a priority belongs to; it must be in one."""
    return next(level for level, span in LEVELS.items() if priority in span)

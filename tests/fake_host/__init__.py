"""An Ascend host that is a folder: nodes, processes, files and programs that answer like real ones.

What a fake does it does because a fact says so (guides/facts); the citation stands next to it.
"""

from tests.fake_host.chips import (
    FakeChip,
    FakeProcess,
    a2_chips,
    a3_chips,
    atlas_chips,
    inference_chips,
)
from tests.fake_host.hccn_tool import hccn_answers
from tests.fake_host.npu_smi import npu_smi_answers
from tests.fake_host.program import Call, Reply, install
from tests.fake_host.tree import USER, FakeHost

__all__ = [
    "USER",
    "Call",
    "FakeChip",
    "FakeHost",
    "FakeProcess",
    "Reply",
    "a2_chips",
    "a3_chips",
    "atlas_chips",
    "hccn_answers",
    "inference_chips",
    "install",
    "npu_smi_answers",
]

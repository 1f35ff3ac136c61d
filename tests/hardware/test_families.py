"""Product families by the names that ``npu-smi`` prints."""

from typing import Optional

import pytest

from ascend_session.hardware.families import family, has_nic


@pytest.mark.parametrize(
    ("name", "found", "nic"),
    [
        ("910A", "Atlas training (910A)", True),
        ("Ascend 910A", "Atlas training (910A)", True),
        ("910ProB", "Atlas training (910A)", True),
        ("910 PremiumA", "Atlas training (910A)", True),
        ("910B3", "A2 (910B)", True),
        ("Ascend 910B4-1", "A2 (910B)", True),
        ("910B", "A2 (910B)", True),
        ("Ascend910", "A3", True),
        ("Ascend910_9392", "A3", True),
        ("910C", "A3", True),
        ("Ascend950PR", "A5 (950)", False),
        ("310P3", "310P", False),
        ("Ascend 310P3", "310P", False),
        ("310B4", "310B", False),
        ("310", "310", False),
        ("MiniD", "310", False),
        ("910", None, False),
        ("", None, False),
        ("H100", None, False),
        ("x910B3", None, False),
    ],
)
def test_families(name: str, found: Optional[str], nic: bool) -> None:
    assert family(name) == found
    assert has_nic(family(name)) is nic

"""The faults that ``scripts/_faults/plant.py`` plants stand where it looks for them."""

from pathlib import Path
from typing import Any, Dict

import pytest
import yaml

TOP = Path(__file__).resolve().parents[1]
FAULTS = yaml.safe_load((TOP / "scripts/_faults/faults.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_a_fault_can_be_planted_and_its_tests_are_there(fault: Dict[str, Any]) -> None:
    text = (TOP / "ascend_session" / fault["file"]).read_text(encoding="utf-8")
    assert text.count(fault["old"]) == 1
    assert fault["old"] != fault["new"]
    assert [name for name in fault["tests"].split() if not (TOP / name).exists()] == []


def test_there_are_enough_of_them_and_each_has_a_sentence_of_its_own() -> None:
    assert len({fault["name"] for fault in FAULTS}) == len(FAULTS) >= 60

"""What collectives on the stub do otherwise than those of a device: see backend_differences.py."""

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

from tests.launched import launched

RANKS = 3


@pytest.fixture(scope="module")
def said(tmp_path_factory: Any, forking_python: str) -> List[Dict[str, Any]]:
    """What each rank said (tests/programs/collective_differences.py)."""
    folder = tmp_path_factory.mktemp("differences")
    asked: Any = {"stall_timeout": 120, "python": forking_python}
    result = launched("collective_differences.py", RANKS, folder, **asked)
    assert result.code == 0, [Path(rank.stderr).read_text()[-2000:] for rank in result.ranks]
    texts = [Path(rank.stdout).read_text() for rank in result.ranks]
    lines = [[one[2:] for one in text.splitlines() if one.startswith("@ ")] for text in texts]
    return [dict(json.loads(line) for line in of_one) for of_one in lines]


def of_all(said: List[Dict[str, Any]], name: str) -> List[Any]:
    """What all ranks said of one thing."""
    return [one[name] for one in said]


def test_who_is_not_the_root_of_a_reduction_gets_zeros(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "reduced on others") == [[6, 15], [0, 0], [0, 0]]


def test_whole_numbers_that_are_too_large_wrap_around(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "beyond int8") == [[300 - 256]] * RANKS


def test_half_precision_is_added_in_single_precision(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "half precision") == [[40000.0]] * RANKS


def test_the_same_sum_has_the_same_bits_again(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "again") == [[True] * 5] * RANKS


def test_fusion_changes_no_value(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "fused") == [[[[6.0], [12.0], [18.0]]] * 2] * RANKS


def test_what_nobody_sends_is_zero(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "gaps") == [[1, 0, 2, 0, 3]] * RANKS


def test_a_session_without_the_entry_runs_collectives(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "plain session") == [[3, 5]] * RANKS

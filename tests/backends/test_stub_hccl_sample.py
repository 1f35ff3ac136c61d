"""The vendor's sample of collectives on eight ranks of the stub (programs/hccl_sample.py)."""

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from tests.launched import launched

RANKS = 8
ELEMENTS = 1024
REDUCTIONS = ("sum", "max", "min", "prod")
# What each rank has everywhere: 1, and its rank, and 1.
OWN = np.arange(2, RANKS + 2)
REDUCED = {"sum": OWN.sum(), "max": RANKS + 1, "min": 2, "prod": OWN.prod()}


@pytest.fixture(scope="module")
def found(tmp_path_factory: Any, forking_python: str) -> List[Dict[str, Any]]:
    """What each rank got, by the names that the program has."""
    folder: Path = tmp_path_factory.mktemp("sample")
    asked = {"args": [str(folder)], "stall_timeout": 120, "python": forking_python}
    result = launched("hccl_sample.py", RANKS, folder, **asked)
    assert result.code == 0, [Path(rank.stderr).read_text()[-2000:] for rank in result.ranks]
    values = []
    for rank in range(RANKS):
        with np.load(str(folder / f"{rank}.npz")) as file:
            values.append(dict(file))
    return values


def rows(value: int, count: int = RANKS) -> Any:
    """That many rows of one number."""
    return np.full([count, ELEMENTS // RANKS], value, np.int64)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_allreduce(found: List[Dict[str, Any]], reduction: str) -> None:
    for values in found:
        assert np.array_equal(values[f"allreduce {reduction}"], rows(REDUCED[reduction]))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reduce_scatter(found: List[Dict[str, Any]], reduction: str) -> None:
    for values in found:
        assert np.array_equal(values[f"reduce_scatter {reduction}"], rows(REDUCED[reduction], 1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reduce(found: List[Dict[str, Any]], reduction: str) -> None:
    assert np.array_equal(found[0][f"reduce {reduction}"], rows(REDUCED[reduction]))
    for values in found[1:]:
        assert values[f"reduce {reduction}"].shape == rows(0).shape


def test_broadcast(found: List[Dict[str, Any]]) -> None:
    for values in found:
        assert np.array_equal(values["broadcast"], rows(2))


def test_allgather(found: List[Dict[str, Any]]) -> None:
    for values in found:
        assert np.array_equal(values["allgather"], np.concatenate([rows(one) for one in OWN]))


def test_all_to_all_v(found: List[Dict[str, Any]]) -> None:
    for rank, values in enumerate(found):
        numbers = np.arange(1, (ELEMENTS + rank) * RANKS + 1)
        assert np.array_equal(values["all_to_all_v"], numbers)
        assert np.array_equal(values["expected of all_to_all_v"], numbers)


def test_every_value_has_the_type_of_the_sample(found: List[Dict[str, Any]]) -> None:
    assert {value.dtype.name for values in found for value in values.values()} == {"int64"}
    assert all(len(values) == 2 + 4 + 4 + 4 + 2 for values in found)

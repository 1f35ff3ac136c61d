"""Real jobs of two and eight ranks, which train with the vendor's names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.launched import launched

_KINDS = ["distributed", "npu", "wrapped", "scaled", "estimator"]


@pytest.fixture(scope="module", params=[2, 8])
def found(request: Any, tmp_path_factory: Any, forking_python: str) -> Any:
    """What each rank of such a job has found, by rank."""
    folder: Path = tmp_path_factory.mktemp("job")
    asked = [str(folder), *_KINDS[: None if request.param == 2 else 1]]
    result = launched("compat_ranks.py", request.param, folder, args=asked, python=forking_python)
    said = [Path(rank.stderr).read_text()[-3000:] for rank in result.ranks]
    assert result.ok, "\n".join(said)
    return [json.loads((folder / f"{n}.json").read_text()) for n in range(request.param)]


def alone(size: int) -> Any:
    """The weights that one process has after training with the batches of all ranks."""
    numbers = np.random.RandomState(0).rand(6, size, 2, 3).astype("float32")
    weight = np.full([3, 1], 0.1, "float32")
    for batch in numbers:
        x = batch.reshape(-1, 3)
        weight -= 0.1 * 2 * x.T @ (x @ weight - x.sum(1, keepdims=True)) / len(x)
    return weight.ravel()


def test_all_ranks_train_what_one_would_with_the_whole_batch(found: Any) -> None:
    kinds = list(found[0]["weights"])
    assert kinds[0] == "distributed"
    for kind in kinds:
        weights = [rank["weights"][kind] for rank in found]
        assert weights == [weights[0]] * len(found), kind
        np.testing.assert_allclose(weights[0], alone(len(found)), rtol=1e-4, err_msg=kind)


def test_each_rank_is_told_its_own_after_init_resource(found: Any) -> None:
    assert [rank["rank"] for rank in found] == [[n, len(found)] for n in range(len(found))]


def test_variables_that_are_broadcast_have_the_roots_values(found: Any) -> None:
    assert [rank["sent"] for rank in found] == [[2.0, 2.0]] * len(found)

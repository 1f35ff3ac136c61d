"""The same computation has the same result: again, in another system, and on the CPU."""

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from ascend_session import AscendConfig, ascend_session
from hardware_tests.graphs import ACCUMULATIONS, CASES, HALF_WAY
from hardware_tests.running import run

# Largest difference, in parts of the largest number expected: in full precision, and in less.
# Convolutions may be computed in HF32, which has 11 bits, even where matrix products are not.
TOLERANCES = {
    "matmul": (1e-4, 5e-3),
    "convolution": (1e-3, 5e-3),
    "softmax": (1e-4, 5e-3),
    "normalisation": (1e-4, 1e-2),
    "rounding": (1e-5, 5e-3),
    "training": (1e-3, 3e-2),
}
REPEATED = 1e-6
# Of adding numbers of all sizes in another order and in less precision, in the same parts.
ADDED = 5e-3
# Which operators it computes in half precision stands in lists that come with the device.
MIXED = "allow_mix_precision"
# Takes float16 wherever an operator has both float16 and float32, and is for inference, which is
# graph_run_mode 0: guides/facts/precision.md#precision-modes, and the manual of the same option of
# GE (CANN 8.1.RC1, ATC, --precision_mode, atlasatcparam_16_0067).
HALF = "force_fp16"
COMPUTED = [(precision, name) for precision in ("full", "mixed") for name in sorted(TOLERANCES)]
# With HALF other operators may add up in half precision, too, and how far off that is nobody says.
COMPUTED += [("half", name) for name in ("convolution", "matmul", "rounding")]


def difference(found: Any, expected: Any) -> float:
    """The largest difference in parts of the largest number expected."""
    return float(np.abs(np.subtract(found, expected)).max() / np.abs(expected).max())


def test_a_session_repeats_its_results(tf: Any) -> None:
    fetch, feed = CASES["convolution"].in_graph(tf)
    with ascend_session(backend="npu") as sess:
        first, *others = [sess.run(fetch, feed) for _ in range(5)]
    assert all(difference(other, first) <= REPEATED for other in others)


def test_a_later_system_repeats_the_results(tf: Any) -> None:
    fetch, feed = CASES["convolution"].in_graph(tf)
    results = []
    for _ in range(2):
        with ascend_session(backend="npu") as sess:
            results.append(sess.run(fetch, feed))
    assert difference(results[1], results[0]) <= REPEATED


@pytest.mark.parametrize("name", sorted(ACCUMULATIONS))
def test_deterministic_results_are_equal_to_the_last_bit(tf: Any, name: str) -> None:
    # That they differ without the option cannot be asked for: they may be equal by luck.
    case = ACCUMULATIONS[name]
    fetch, feed = case.in_graph(tf)
    with ascend_session(AscendConfig(deterministic=1), backend="npu") as sess:
        results = [sess.run(fetch, feed) for _ in range(10)]
    assert len({result.tobytes() for result in results}) == 1
    assert difference(results[0], case.in_numpy()) <= ADDED


class TestAgainstTheCpu:
    """Each precision mode has a process of its own, which computes all cases."""

    @pytest.fixture(scope="class")
    def full(self, report: Any) -> str:
        """The mode with the most bits: the oldest family has no products of single floats."""
        family = report.visible[0].family or "" if report.visible else ""
        return "allow_fp32_to_fp16" if "910A" in family else "must_keep_origin_dtype"

    @pytest.fixture(scope="class")
    def results(self, tmp_path_factory: Any, full: str) -> Dict[str, Any]:
        """What the programs computed; what became of one that failed is for the tests to say."""
        folder: Path = tmp_path_factory.mktemp("precision")
        computed: Dict[str, Any] = {}
        for mode in (full, MIXED, HALF):
            ended = run("precision", mode, str(folder / f"{mode}.npz"))
            computed[mode] = ended
            if ended.code == 0:
                with np.load(str(folder / f"{mode}.npz")) as file:
                    computed[mode] = dict(file)
        return computed

    @pytest.mark.parametrize(("precision", "name"), COMPUTED)
    def test_the_result_is_that_of_the_cpu(
        self, results: Dict[str, Any], full: str, precision: str, name: str
    ) -> None:
        mode = {"full": full, "mixed": MIXED, "half": HALF}[precision]
        computed = results[mode]
        assert isinstance(computed, dict), computed.log
        on_cpu = computed["training on the CPU"] if name == "training" else CASES[name].in_numpy()
        tolerance = TOLERANCES[name][mode != "must_keep_origin_dtype"]
        assert difference(computed[name], on_cpu) <= tolerance

    def test_half_precision_rounds_to_half_precision(self, results: Dict[str, Any]) -> None:
        computed = results[HALF]
        assert isinstance(computed, dict), computed.log
        off = np.abs(computed["rounding"] - CASES["rounding"].in_numpy())
        assert off.min() >= 0.9 * HALF_WAY
        assert off.max() <= 1.1 * HALF_WAY

"""The contract of collectives on two, four and eight devices, with a process for each."""

from typing import Any

import pytest

from hardware_tests.collective_answers import Answers, answers_of
from hardware_tests.collective_cases import section_of
from hardware_tests.collective_contract import CollectiveContract, sections_asked_for
from hardware_tests.jobs import ATLAS_TRAINING, launch_settings, why_no_job

# allreduce.md, reduce.md and allgather.md: what Atlas training does not have
_NOT_ON_ATLAS_TRAINING = ("int16", "bfloat16")


@pytest.fixture(scope="class")
def answers(request: Any, report: Any, tmp_path_factory: Any) -> Answers:
    """What so many ranks said as the class has."""
    ranks = request.cls.ranks
    obstacle = why_no_job([device.family for device in report.visible], ranks)
    if obstacle:
        pytest.skip(obstacle)
    missing = _missing(report)
    sections = [one for one in sections_asked_for(request) if one not in missing]
    folder = tmp_path_factory.mktemp("job")
    return answers_of("npu", ranks, sections, folder, **launch_settings(ranks))


class OnDevices(CollectiveContract):
    """What is the same for any number of devices."""

    @pytest.fixture(autouse=True)
    def only_what_the_product_has(self, request: Any, report: Any) -> None:
        params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
        section = section_of(params.get("check", "end"))
        if section in _missing(report):
            pytest.skip(f"Atlas training has no collectives of {section}")

    # Of the device no page says what it does with a tensor without elements.
    test_nothing_of_nothing_is_nothing = None  # type: ignore[assignment]


def _missing(report: Any) -> Any:
    families = {device.family for device in report.visible}
    return _NOT_ON_ATLAS_TRAINING if ATLAS_TRAINING in families else ()


@pytest.mark.needs(devices=2)
class TestOnTwo(OnDevices):
    ranks = 2


@pytest.mark.needs(devices=4)
class TestOnFour(OnDevices):
    ranks = 4


@pytest.mark.needs(devices=8)
class TestOnEight(OnDevices):
    ranks = 8

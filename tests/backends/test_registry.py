"""A backend is one class in one module: what another one needs to be chosen, opened and asked."""

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Dict, Mapping, Optional

import pytest

from ascend_session import BackendError, LaunchConfig, ascend_session, backends, hccl
from ascend_session.backends import backend_class, choose
from ascend_session.backends.base import FEATURES, Backend, HostDevices
from ascend_session.cluster.job import Job
from ascend_session.errors import DeviceError, UnsupportedError
from ascend_session.launcher.plan.plan import decide_job, plan_job
from hardware_tests.backend_contract import BackendContract


class Third(Backend):
    """A backend with nothing but what it must have."""

    name = "third"
    capabilities: ClassVar[Mapping[str, Any]] = dict.fromkeys(FEATURES, True)

    @classmethod
    def detect(cls, environ: Mapping[str, str]) -> Optional[str]:
        return "there is a third" if environ.get("THIRD") else None

    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        pass


class ThirdWithDevices(Third):
    """One with two devices, of which a rank sees those that a variable of its own names."""

    @classmethod
    def find_devices(cls, environ: Mapping[str, str], rank_count: int) -> HostDevices:
        return HostDevices((None, None), ("They are slow.",))

    @classmethod
    def device_variables(
        cls, device: int, local_size: int, environ: Mapping[str, str]
    ) -> Dict[str, str]:
        return {"THIRD_VISIBLE_DEVICES": str(device)}


class ThirdThatRefuses(Third):
    """One that finds out only at the last moment that a rank cannot have its device."""

    @classmethod
    def device_variables(
        cls, device: int, local_size: int, environ: Mapping[str, str]
    ) -> Dict[str, str]:
        raise DeviceError("This device has been lent.")


@pytest.fixture(params=[Third])
def third(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The third backend is registered, and asked first."""
    module, path = sys.modules[__name__], f"third:{request.param.__name__}"
    monkeypatch.setitem(sys.modules, "ascend_session.backends.third", module)
    monkeypatch.setattr(backends, "_REGISTRY", {"third": path, **backends._REGISTRY})
    return "third"


class TestThird(BackendContract):
    """What a backend must have is enough for the contract."""

    @pytest.fixture
    def backend_name(self, third: str) -> str:
        return third


def test_a_backend_without_collectives_refuses_them_by_name(tf: Any, third: str) -> None:
    with ascend_session(backend=third), pytest.raises(UnsupportedError, match="The third backend"):
        hccl.allreduce(tf.constant(3.0), "sum")


def test_a_launch_has_a_device_for_each_rank_unless_the_backend_says_other(third: str) -> None:
    ranks = plan_job(LaunchConfig(script=__file__, backend=third, processes=9), {}).ranks
    assert [(rank.device_id, rank.physical_id) for rank in ranks] == [(n, None) for n in range(9)]
    assert "ASCEND_SESSION_STUB_DEVICES" not in ranks[0].environment


@pytest.mark.parametrize("third", [ThirdWithDevices], indirect=True)
def test_a_launch_chooses_among_the_devices_that_the_backend_finds(third: str) -> None:
    planned = plan_job(LaunchConfig(script=__file__, backend=third), {})
    visible = [rank.environment["THIRD_VISIBLE_DEVICES"] for rank in planned.ranks]
    assert (visible, planned.notes) == (["0", "1"], ("They are slow.",))
    with pytest.raises(DeviceError, match="The third has 2 devices, 0 to 1; this launch needs 3"):
        plan_job(LaunchConfig(script=__file__, backend=third, processes=3), {})


@pytest.mark.parametrize("third", [ThirdThatRefuses], indirect=True)
def test_what_a_backend_refuses_of_a_rank_is_a_problem_like_others(third: str) -> None:
    decisions = decide_job(LaunchConfig(script=__file__, backend=third, processes=2), {})
    assert [problem.message for problem in decisions.problems] == ["This device has been lent."]
    assert decisions.plan is None
    assert [device.logical for device in decisions.devices] == [0, 1]


def test_auto_is_the_first_that_fits_the_host(third: str, tmp_path: Path) -> None:
    host = {"ASCEND_SESSION_HOST_ROOT": str(tmp_path)}
    assert choose("auto", {**host, "THIRD": "1"}) == ("third", "there is a third", True)
    assert choose("auto", host).name == "stub"


def test_it_is_among_the_known_ones_of_the_refusal(third: str) -> None:
    with pytest.raises(BackendError) as refused:
        choose("fourth", {})
    assert refused.value.hint == "Choose from auto, third, npu, stub."


@pytest.mark.parametrize("name", ["npu", "stub"])
def test_its_facts_cost_neither_tensorflow_nor_the_vendors_packages(name: str) -> None:
    code = (
        f"from ascend_session.backends import backend_class; backend_class({name!r}); import sys; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    slow = {"tensorflow", "numpy", "attr", "psutil", "tenacity", "npu_bridge", "hccl"}
    assert not slow & set(ran.stdout.decode().split())


def test_each_class_has_the_name_under_which_it_is_registered() -> None:
    assert [backend_class(name).name for name in ("npu", "stub")] == ["npu", "stub"]

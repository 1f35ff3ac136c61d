"""Whether the devices of a job are free when it is over."""

import shutil
import threading
from typing import Any

import pytest

from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.preflight_npu import note_held_devices
from tests.fake_host import USER, FakeProcess, Reply, a2_chips, npu_smi_answers
from tests.launcher.jobs import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def planned(bench: Bench) -> Plan:
    """A job on the devices 4 and 5 of a host that has 4 to 7."""
    bench.nodes([4, 5, 6, 7])
    return bench.with_table(backend="npu", processes=2)


def test_free_devices_are_nothing_to_say(bench: Bench, planned: Plan) -> None:
    bench.host.process(7, "python3 other.py", devices=[6, 7])
    assert note_held_devices(planned, 600) == []


def test_each_device_that_is_held_is_named_with_its_holder(bench: Bench, planned: Plan) -> None:
    bench.host.process(4321, "python3 train.py", devices=[4, 5])
    assert note_held_devices(planned, 0) == [
        f"After the job, device {logical} (/dev/davinci{physical}) is held by process 4321 "
        f"(python3 train.py) of user {USER}; another job there may fail until that process has "
        "exited."
        for logical, physical in ((0, 4), (1, 5))
    ]


def test_a_holder_that_only_npu_smi_lists_is_named(bench: Bench) -> None:
    bench.nodes([0, 1])
    chips = a2_chips(2)
    bench.host.npu_smi(npu_smi_answers("910B", chips, [FakeProcess(1, 0, 77, "python3", 3000)]))
    planned = bench.with_table(backend="npu", processes=2)
    (said,) = note_held_devices(planned, 0)
    assert "device 1 (/dev/davinci1) is held by process 77 (python3) on the host" in said


def test_holders_are_given_time_to_go(bench: Bench, planned: Plan, monkeypatch: Any) -> None:
    bench.host.process(4321, "python3 train.py", devices=[5])
    seen = threading.Event()

    def sleep(seconds: float) -> None:
        seen.set()
        shutil.rmtree(str(bench.host.root / "proc" / "4321"))

    monkeypatch.setattr("tenacity.nap.time.sleep", sleep)
    assert note_held_devices(planned, 600) == []
    assert seen.is_set()


def test_devices_that_cannot_be_seen_are_said_to_be_so(bench: Bench, planned: Plan) -> None:
    text = "dcmi model initialized failed, because the device is used. ret is -8020\n"
    bench.host.npu_smi({"info": Reply(text, code=1), "info -m": Reply(text, code=1)})
    assert note_held_devices(planned, 0) == [
        "Whether the job's devices are free could not be checked: another container holds a "
        "device, which hides who holds the others."
    ]


def test_without_proc_that_is_said(bench: Bench, planned: Plan) -> None:
    shutil.rmtree(str(bench.host.root / "proc"))
    (said,) = note_held_devices(planned, 0)
    assert "/proc could not be read (No such file or directory)" in said


def test_a_device_that_has_gone_is_not_mistaken_for_another(bench: Bench, planned: Plan) -> None:
    (bench.host.root / "dev" / "davinci4").unlink()
    bench.host.process(9, "python3 train.py", devices=[5])
    bench.host.process(10, "python3 other.py", devices=[6])
    held, unseen = note_held_devices(planned, 0)
    assert f"/dev/davinci5) is held by process 9 (python3 train.py) of user {USER};" in held
    assert "/dev/davinci4 has disappeared" in unseen

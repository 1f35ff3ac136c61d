"""Which device each rank gets: visible lists, containers, rules of products, the stub."""

from typing import Any, Dict, List, Optional, Tuple

import pytest

from ascend_session.errors import BackendError, DeviceError
from ascend_session.launcher.plan.plan import Plan
from tests.fake_host import a2_chips, a3_chips, atlas_chips, npu_smi_answers
from tests.launcher.jobs import Bench, bench

__all__ = ["bench"]


def ids(made: Plan) -> List[Tuple[int, Optional[int]]]:
    """Logical and physical id of each rank."""
    return [
        (int(rank.device_id), None if rank.physical_id is None else int(rank.physical_id))
        for rank in made.ranks
    ]


@pytest.mark.parametrize("count", range(1, 17))
def test_each_rank_gets_a_device_of_its_own(bench: Bench, count: int) -> None:
    bench.nodes(range(16))
    bench.host.npu_smi(npu_smi_answers("A3", a3_chips()))
    made = bench.with_table(processes=count)
    assert ids(made) == [(number, number) for number in range(count)]
    assert made.notes == ()


def test_all_visible_devices_are_the_default(bench: Bench) -> None:
    bench.nodes(range(8))
    assert ids(bench.with_table()) == [(number, number) for number in range(8)]


def test_a_container_has_other_physical_ids(bench: Bench) -> None:
    bench.nodes([4, 5, 6, 7])
    made = bench.with_table()
    assert ids(made) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert [rank.environment["DEVICE_ID"] for rank in made.ranks] == ["4", "5", "6", "7"]
    assert [rank.environment["ASCEND_DEVICE_ID"] for rank in made.ranks] == ["0", "1", "2", "3"]


def test_a_visible_list_renumbers(bench: Bench) -> None:
    bench.nodes(range(8))
    bench.environ["ASCEND_RT_VISIBLE_DEVICES"] = "4,5,6,7"
    made = bench.with_table(devices="2-3")
    assert ids(made) == [(2, 6), (3, 7)]
    assert made.ranks[0].environment["ASCEND_RT_VISIBLE_DEVICES"] == "4,5,6,7"


def test_a_visible_list_in_a_container_counts_its_nodes(bench: Bench) -> None:
    bench.nodes([4, 5, 6, 7])
    bench.environ["ASCEND_RT_VISIBLE_DEVICES"] = "2,3"
    assert ids(bench.with_table()) == [(0, 6), (1, 7)]


def test_a_list_that_the_runtime_cuts_short_is_said(bench: Bench) -> None:
    bench.nodes(range(8))
    bench.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1, 2,3"
    made = bench.with_table()
    assert len(made.ranks) == 2
    assert "the runtime reads only '0,1'" in made.notes[0]


def test_a_list_that_the_runtime_drops_is_refused(bench: Bench) -> None:
    bench.nodes(range(8))
    bench.environ["ASCEND_RT_VISIBLE_DEVICES"] = "1,0"
    with pytest.raises(DeviceError, match="drops the whole list"):
        bench.with_table()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"processes": 5},
            "4 device(s), 0 to 3 (physical 4, 5, 6, 7); this launch needs 5 devices, but there is "
            "no device 4.",
        ),
        ({"devices": "2-5"}, "this launch needs 4 devices, but there is no device 4, 5."),
        ({"devices": "0-3", "processes": 2}, "processes=2, but devices='0-3' names"),
    ],
)
def test_more_than_there_is_is_refused(bench: Bench, asked: Dict[str, Any], said: str) -> None:
    bench.nodes([4, 5, 6, 7])
    with pytest.raises(DeviceError) as refused:
        bench.with_table(**asked)
    assert said in refused.value.message


def test_devices_without_a_node_are_refused(bench: Bench) -> None:
    with pytest.raises(DeviceError, match="there is no /dev/davinci<N>"):
        bench.with_table(backend="npu")


@pytest.mark.parametrize("devices", ["0", "0-1", "2,3", "4-7", "0-3", "0-7"])
def test_a_whole_ring_or_a_part_of_it_needs_no_npu_smi(bench: Bench, devices: str) -> None:
    bench.nodes(range(8))
    bench.host.npu_smi(npu_smi_answers("910A", atlas_chips()))
    assert bench.with_table(devices=devices).notes == ()
    assert bench.host.calls() == []


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ("3-4", "must stay inside 0-3 or 4-7, which are separate rings; these are physical 3, 4"),
        ("2-5", "A job of 4 devices on the Atlas training series must stay inside 0-3 or 4-7"),
        ("0-2", "has 1, 2, 4 or 8 devices of a server, not 3 (physical 0, 1, 2)"),
    ],
)
def test_the_atlas_training_series_has_rings(bench: Bench, devices: str, said: str) -> None:
    bench.nodes(range(8))
    bench.host.npu_smi(npu_smi_answers("910A", atlas_chips()))
    with pytest.raises(DeviceError) as refused:
        bench.with_table(devices=devices)
    assert said in refused.value.message


def test_rings_are_of_physical_devices(bench: Bench) -> None:
    bench.nodes([2, 3, 4, 5])
    bench.host.npu_smi(npu_smi_answers("910A", atlas_chips()[2:6]))
    with pytest.raises(DeviceError, match="physical 3, 4"):
        bench.with_table(devices="1-2")


@pytest.mark.parametrize("devices", ["3-4", "0-2", "0-6"])
def test_other_products_have_no_rings(bench: Bench, devices: str) -> None:
    bench.nodes(range(8))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips()))
    assert bench.with_table(devices=devices).notes == ()


def test_an_unknown_product_is_said(bench: Bench) -> None:
    bench.nodes(range(8))
    (note,) = bench.with_table(devices="3-4").notes
    assert note.startswith("The product is not known. A job of 2 devices on the Atlas training")


@pytest.mark.parametrize("count", [1, 8, 9, 16, 256])
def test_the_stub_has_as_many_devices_as_ranks(bench: Bench, count: int) -> None:
    made = bench.plan(processes=count)
    assert made.backend.name == "stub"
    assert ids(made) == [(number, None) for number in range(count)]
    assert made.ranks[-1].environment["ASCEND_SESSION_STUB_DEVICES"] == str(max(count, 8))


def test_all_devices_of_the_stub_are_the_default(bench: Bench) -> None:
    assert len(bench.plan().ranks) == 8
    bench.environ["ASCEND_SESSION_STUB_DEVICES"] = "3"
    assert len(bench.plan().ranks) == 3


def test_more_ranks_than_the_stub_was_given_devices_is_said(bench: Bench) -> None:
    bench.environ["ASCEND_SESSION_STUB_DEVICES"] = "3"
    made = bench.plan(processes=4)
    assert made.notes == ("ASCEND_SESSION_STUB_DEVICES=3 is raised to 4, one per rank.",)
    assert made.ranks[3].environment["ASCEND_SESSION_STUB_DEVICES"] == "4"


def test_devices_of_the_stub_can_be_named(bench: Bench) -> None:
    assert ids(bench.plan(devices="1,6")) == [(1, None), (6, None)]
    with pytest.raises(DeviceError, match="The stub has 8 devices, 0 to 7; this launch needs 1"):
        bench.plan(devices="8")


@pytest.mark.parametrize("text", ["0", "many", "-1"])
def test_a_wrong_number_of_stub_devices_is_refused(bench: Bench, text: str) -> None:
    bench.environ["ASCEND_SESSION_STUB_DEVICES"] = text
    with pytest.raises(BackendError, match="is not a number of devices"):
        bench.plan()


def test_the_stub_can_be_asked_for_where_there_are_devices(bench: Bench) -> None:
    bench.nodes([4, 5])
    made = bench.plan(backend="stub", processes=2)
    assert ids(made) == [(0, None), (1, None)]


def test_ranks_follow_the_order_in_which_devices_are_named(bench: Bench) -> None:
    bench.nodes(range(16))
    made = bench.with_table(devices="15,0-3")
    assert ids(made) == [(15, 15), (0, 0), (1, 1), (2, 2), (3, 3)]


def test_devices_that_the_atlas_training_series_has_not_need_no_product(bench: Bench) -> None:
    bench.nodes(range(16))
    assert bench.with_table(devices="0,1,8,9").notes == ()


def test_a_job_on_one_a2_has_the_same_devices_of_both_halves(bench: Bench) -> None:
    bench.nodes(range(16))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips(16)))
    with pytest.raises(DeviceError, match=r"n and n \+ 8; these are physical 0, 1, 8"):
        bench.with_table(devices="0,1,8")
    (note,) = bench.with_table(devices="0,9").notes
    assert "these are physical 0, 9" in note
    roce = {"HCCL_INTRA_ROCE_ENABLE": "1"}
    assert bench.with_table(devices="0,1,8", env=roce).notes == ()
    bench.environ.update(roce)
    assert bench.with_table(devices="0,1,8").notes == ()

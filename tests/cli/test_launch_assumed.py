"""``launch --dry-run --assume``: a job on another machine, planned where there are no devices."""

import json

import pytest

from tests.cluster.rank_table.tables import device, v1_0

DRY = ("launch", "--dry-run", "--job-id", "j", "--bind", "none", "--backend", "npu")


@pytest.fixture
def place(host, tmp_path, monkeypatch):
    """A folder with a script and the table of two servers of eight devices."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text("print('here')\n")
    (folder / "hccl.json").write_text(json.dumps(v1_0(servers=2, devices=8)))
    return folder


@pytest.mark.parametrize("number", [0, 1])
def test_the_plan_is_that_of_a_machine_with_these_devices(call, host, place, number):
    words = ("--rank-table", "hccl.json", "--node-rank", str(number), "--json", "train.py")
    assumed = call(*DRY, "--assume", "A2:8", *words)
    host.nodes(range(8))
    there = call(*DRY, *words)
    plans = [json.loads(called.out) for called in (assumed, there)]
    assert plans[0]["notes"][0].startswith(
        "This plan is for another machine, with 8 devices of A2 (910B)"
    )
    for plan in plans:
        for key in ("notes", "bound"):
            del plan[key]
        for rank in plan["ranks"]:  # what the CPUs of this machine need
            rank["changed"].pop("TF_NUM_INTEROP_THREADS", None)
    assert plans[0] == plans[1]
    assert [rank["rank"] for rank in plans[0]["ranks"]] == list(range(8 * number, 8 * number + 8))


def test_a_plan_for_another_machine_says_so(call, place):
    called = call(*DRY, "--assume", "A2:8", "--no-rank-table", "train.py")
    assert called.code == 0
    assert "note: This plan is for another machine, with 8 devices of A2 (910B)" in called.err
    assert "is an example: a launch on that machine takes its own address" in called.err
    assert "CPUs      those of that machine are not known" in called.out


def test_devices_are_assumed_without_naming_the_backend(call, place):
    called = call("launch", "--dry-run", "--assume", "A2:2", "--no-rank-table", "train.py")
    assert called.out.startswith("Ranks     2 on npu: 2 devices of A2 (910B) are assumed")


def test_eight_ranks_are_one_block(call, place):
    called = call(
        *DRY, "--assume", "A2:8", "--rank-table", "hccl.json", "--node-rank", "1", "train.py"
    )
    assert "Rank {8..15} on device {0..7} (/dev/davinci{0..7})\n" in called.out
    assert "  LOCAL_RANK={0..7}\n" in called.out
    assert "  RANK_ID={8..15}\n" in called.out
    assert "/rank_{8..15}/stdout.log\n" in called.out
    assert len(called.out.splitlines()) < 40


@pytest.mark.parametrize(
    ("assumed", "words", "code", "said"),
    [
        ("A2:4", (), 2, "the devices 4, 5, 6, 7, which 4 devices of A2 (910B) do not include"),
        ("A2:8", ("--devices", "0-3"), 2, "but the rank table gives node_0 8"),
        ("910A:8", ("--no-rank-table",), 2, "both given"),
    ],
)
def test_what_that_machine_could_not_start_is_refused(call, place, assumed, words, code, said):
    table = ("--rank-table", "hccl.json", "--node-rank", "0")
    called = call(*DRY, "--assume", assumed, *table, *words, "train.py")
    assert (called.code, called.out) == (code, "")
    assert said in called.err


def test_the_table_is_checked_by_the_rules_of_the_product(call, place):
    table = v1_0(servers=1, devices=4)
    device(table, 0, 3)["device_id"] = "4"
    (place / "four.json").write_text(json.dumps(table))
    words = ("--rank-table", "four.json", "--devices", "0-2,4", "train.py")
    assert (
        "HCCL takes only 0123"
        in call(*DRY, "--assume", "910A:8", "-n", "8", *words[:2], "train.py").err
    )
    on_a2 = call(*DRY, "--assume", "A2:8", *words)
    assert on_a2.code == 0
    other = call(
        *DRY, "--assume", "A2:8", "--rank-table", "four.json", "--devices", "0-3", "train.py"
    )
    assert other.code == 1
    assert "is 4, but rank 3 opens the physical device 3." in other.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--assume", "A2:8"), "--assume: is for a plan on another machine; add --dry-run"),
        (("--dry-run", "--assume", "A2:8", "--backend", "stub"), "give --backend npu"),
        (("--dry-run", "--assume", "A2"), "is not a product and a number of devices"),
        (("--dry-run", "--assume", "A2:0"), "is not a product and a number of devices"),
        (("--dry-run", "--assume", "X:8"), "is not a product and a number of devices"),
        (("--dry-run", "--assume", "910A:16"), "is not a product and a number of devices"),
    ],
)
def test_a_wrong_call_is_two(call, place, words, said):
    called = call("launch", *words, "train.py")
    assert called.code == 2
    assert said in called.err
    assert not (place / "ascend-logs").exists()

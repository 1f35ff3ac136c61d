"""``--bind``: which CPUs ranks get, on hosts of every kind, and what becomes of it."""

import json
import os
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

import pytest

from ascend_session.errors import ConfigError
from ascend_session.launcher.api import launch
from ascend_session.launcher.job.events import NotBound
from ascend_session.launcher.plan.plan import Plan
from tests.fake_host import FakeChip, Reply, a2_chips, a3_chips, npu_smi_answers
from tests.hardware.topologies import A2
from tests.launcher.jobs import Bench, bench
from tests.launcher.supervised import config, job

__all__ = ["bench"]

_WHOLE = range(192)
_OWN = sorted(os.sched_getaffinity(0))
_NOWHERE = 4095  # a CPU that no machine here has
_SAY = "import os; print(sorted(os.sched_getaffinity(0)))"


def _decide(bench: Bench, ranks: int, allowed: Sequence[int] = _WHOLE, asked: str = "auto") -> Plan:
    """Plan a launch that may use these CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: set(allowed))
        return bench.with_table(processes=ranks, bind=asked)


def _cpus(found: Plan) -> List[Optional[Tuple[int, ...]]]:
    return [rank.cpus for rank in found.ranks]


def _host(bench: Bench, chips: List[FakeChip], cpus: Sequence[str], layout: str = "910B") -> None:
    bench.nodes(range(len(chips)))
    bench.host.npu_smi(npu_smi_answers(layout, chips, (), cpus))


def _ranges(found: Plan) -> List[Optional[Tuple[int, int]]]:
    """First and last CPU of each rank, all of whose CPUs are one range."""
    for cpus in _cpus(found):
        assert cpus is None or list(cpus) == list(range(cpus[0], cpus[-1] + 1))
    return [None if cpus is None else (cpus[0], cpus[-1]) for cpus in _cpus(found)]


def test_ranks_are_near_their_devices_and_share_what_is_near_several(bench: Bench) -> None:
    bench.nodes(range(8))
    answers = npu_smi_answers("910B", a2_chips())
    bench.host.npu_smi({**answers, "info -t topo": Reply(A2)})
    found = _decide(bench, 8)
    assert _ranges(found) == [
        (144, 155), (156, 167), (96, 107), (108, 119), (0, 11), (12, 23), (48, 59), (60, 71),
    ]  # fmt: skip
    assert (found.bound, found.notes) == ("near each device, by npu-smi", ())


@pytest.mark.parametrize("asked", ["auto", "none"])
def test_ranks_with_few_cpus_have_four_inter_op_threads_all_the_same(
    bench: Bench, asked: str
) -> None:
    bench.nodes(range(2))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    found = _decide(bench, 2, range(2), asked)
    for rank in found.ranks:
        assert rank.changed["TF_NUM_INTEROP_THREADS"] == "4"
    assert found.bound.endswith("; each has 4 inter-op threads (TF_NUM_INTEROP_THREADS)")


@pytest.mark.parametrize("allowed", [4, 7, 8])
def test_the_rank_with_the_fewest_cpus_decides_on_inter_op_threads(
    bench: Bench, allowed: int
) -> None:
    bench.nodes(range(2))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    found = _decide(bench, 2, range(allowed), "even")
    assert ("TF_NUM_INTEROP_THREADS" in found.ranks[1].environment) == (allowed < 8)
    assert ("inter-op" in found.bound) == (allowed < 8)


@pytest.mark.parametrize("value", ["1", ""])
@pytest.mark.parametrize("where", ["exported", "given"])
def test_inter_op_threads_that_the_user_has_set_stay(bench: Bench, where: str, value: str) -> None:
    variables = {"TF_NUM_INTEROP_THREADS": value}
    bench.environ.update(variables if where == "exported" else {})
    bench.nodes(range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: {0})
        found = bench.with_table(processes=2, env=variables if where == "given" else {})
    assert [rank.environment["TF_NUM_INTEROP_THREADS"] for rank in found.ranks] == [value] * 2
    assert "inter-op" not in found.bound


def test_ranks_on_the_stub_keep_the_inter_op_threads_that_they_have(bench: Bench) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: {0})
        found = bench.plan(processes=2)
    assert "TF_NUM_INTEROP_THREADS" not in found.ranks[0].environment


def test_only_ranks_of_the_job_share(bench: Bench) -> None:
    _host(bench, a2_chips(4), ["0-11", "0-11", "12-23", "12-23"])
    assert _ranges(_decide(bench, 3)) == [(0, 5), (6, 11), (12, 23)]


def test_a_visible_list_does_not_shift_what_is_near(bench: Bench) -> None:
    _host(bench, a2_chips(4), ["0-11", "12-23", "24-35", "36-47"])
    bench.environ["ASCEND_RT_VISIBLE_DEVICES"] = "2,3"
    assert _ranges(_decide(bench, 2)) == [(24, 35), (36, 47)]


def test_sixteen_devices_have_sixteen_places(bench: Bench) -> None:
    _host(bench, a3_chips(), [f"{80 * (n // 4)}-{80 * (n // 4) + 79}" for n in range(16)], "A3")
    found = _decide(bench, 16, range(320))
    assert _ranges(found) == [(20 * n, 20 * n + 19) for n in range(16)]


def test_a_cpuset_limits_what_is_near(bench: Bench) -> None:
    _host(bench, a2_chips(2), ["0-23", "24-47"])
    assert _ranges(_decide(bench, 2, range(20, 30))) == [(20, 23), (24, 29)]


def test_outside_of_the_cpuset_nothing_is_near_and_all_get_the_same(bench: Bench) -> None:
    _host(bench, a2_chips(2), ["0-23", "24-47"])
    found = _decide(bench, 2, range(24))
    assert _ranges(found) == [(0, 11), (12, 23)]
    assert found.bound == "each an equal part of 24 CPUs, for none of them is near device 1"


def test_too_few_cpus_nearby_are_not_shared_by_more_ranks(bench: Bench) -> None:
    _host(bench, a2_chips(3), ["0", "0", "1-9"])
    found = _decide(bench, 3, range(9))
    assert _ranges(found) == [(0, 2), (3, 5), (6, 8)]
    assert "only 1 CPU of them for 2 ranks" in found.bound


def test_cores_are_not_torn(bench: Bench) -> None:
    _host(bench, a2_chips(2), ["0-7", "0-7"])
    bench.host.cores([(0, 4), (1, 5), (2, 6), (3, 7)])
    assert _cpus(_decide(bench, 2)) == [(0, 1, 4, 5), (2, 3, 6, 7)]
    # One more than can be divided, and a sibling that may not be used.
    assert _cpus(_decide(bench, 2, [0, 1, 2, 5, 6])) == [(0,), (1, 2, 5, 6)]


def test_more_ranks_than_cores_share_cores(bench: Bench) -> None:
    _host(bench, a2_chips(4), ["0-3"] * 4)
    bench.host.cores([(0, 1), (2, 3)])
    assert _cpus(_decide(bench, 4)) == [(0,), (1,), (2,), (3,)]


def test_numa_nodes_count_where_npu_smi_has_no_cpus(bench: Bench) -> None:
    chips = a2_chips(4)
    _host(bench, chips, [""] * 4)
    bench.host.numa(["0-15", "16-31"], {chip.bus: 1 - chip.npu // 2 for chip in chips})
    found = _decide(bench, 4)
    assert _ranges(found) == [(16, 23), (24, 31), (0, 7), (8, 15)]
    assert found.bound == "near each device, by NUMA nodes"


def test_where_nothing_is_known_all_get_the_same(bench: Bench) -> None:
    bench.nodes(range(5))
    found = _decide(bench, 5, range(100, 124))
    assert _ranges(found) == [(100, 103), (104, 108), (109, 113), (114, 118), (119, 123)]
    assert found.bound == "each an equal part of 24 CPUs, for the CPUs near device 0 are unknown"
    (note,) = found.notes
    assert note.startswith("The product is not known. ")


def test_an_even_split_asks_no_npu_smi(bench: Bench) -> None:
    _host(bench, a2_chips(2), ["24-47", "0-23"])
    assert _ranges(_decide(bench, 2, range(48), "even")) == [(0, 23), (24, 47)]
    assert bench.host.calls() == []


@pytest.mark.parametrize("asked", ["auto", "even"])
def test_fewer_cpus_than_ranks_are_shared_by_all(bench: Bench, asked: str) -> None:
    _host(bench, a2_chips(8), [""] * 8)
    found = _decide(bench, 8, [0, 1], asked)
    assert _cpus(found) == [None] * 8
    assert found.notes == (
        "The launcher may use 2 CPUs for 8 ranks, so they are not pinned and share all CPUs.",
    )
    bench.environ["SLURM_JOB_ID"] = "4"
    assert "--cpus-per-task" in _decide(bench, 8, [0], asked).notes[0]


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("OMPI_COMM_WORLD_RANK", "mpirun leaves a launcher all CPUs of its node with --bind-to no"),
        ("SLURM_JOB_ID", "Slurm gives a task more with --cpus-per-task."),
    ],
)
def test_ranks_on_the_stub_that_a_scheduler_puts_on_one_cpu_are_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, variable: str, hint: str
) -> None:
    bench.environ.update({"OMPI_COMM_WORLD_SIZE": "1"} if "RANK" in variable else {})
    bench.environ[variable] = "0"

    def notes(allowed: Sequence[int], count: int) -> List[str]:
        monkeypatch.setattr(os, "cpu_count", lambda: count)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(allowed))
        found = bench.plan(processes=2, bind="auto", backend="stub")
        assert _cpus(found) == [None, None]
        return list(found.notes)

    (note,) = notes([3], 8)
    assert note.startswith("The launcher may use 1 CPU for 2 ranks, so ")
    assert hint in note
    # Enough for all, and a machine that has no more.
    assert notes([3, 4], 8) == []
    assert notes([3], 1) == []


def test_no_cpu_is_given_twice_where_two_sources_overlap(bench: Bench) -> None:
    chips = a2_chips(4)
    _host(bench, chips, ["0-23", "24-47", "", ""])
    # npu-smi knows devices 0 and 1, the NUMA nodes all: those count for all, then.
    bench.host.numa(["0-47", "48-95"], {chip.bus: 0 for chip in chips})
    found = _decide(bench, 3)
    assert _ranges(found) == [(0, 15), (16, 31), (32, 47)]
    assert found.bound == "near each device, by NUMA nodes"


def test_what_is_near_in_part_to_others_is_divided_evenly(bench: Bench) -> None:
    _host(bench, a2_chips(2), ["0-23", "0-47"])
    found = _decide(bench, 2, range(48))
    assert _ranges(found) == [(0, 23), (24, 47)]
    assert found.bound == (
        "each an equal part of 48 CPUs, for some of them are near several devices that have others "
        "besides"
    )


def test_a_plan_has_the_cpus_of_each_rank(bench: Bench) -> None:
    text = ",".join(map(str, _OWN))
    _host(bench, a2_chips(1), [text])
    made = bench.with_table(bind="auto")
    assert made.ranks[0].cpus == tuple(_OWN)
    shown = json.loads(json.dumps(made.as_dict()))
    assert shown["ranks"][0]["cpus"] == _OWN
    assert shown["bound"].startswith("near each device, by npu-smi")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("auto", "not pinned, because the ranks are on the stub (bind='even' pins them)"),
        ("none", "not pinned (bind='none')"),
    ],
)
def test_ranks_on_the_stub_run_where_they_like(bench: Bench, asked: str, said: str) -> None:
    made = bench.plan(processes=1, bind=asked)
    assert (made.ranks[0].cpus, made.bound, made.notes) == (None, said, ())


@pytest.mark.parametrize("asked", ["numa", "", None, 1, ["auto"]])
def test_no_other_binding_is_taken(bench: Bench, asked: Any) -> None:
    with pytest.raises(ConfigError, match="bind takes 'auto', 'even' or 'none', not"):
        bench.config(bind=asked)


@pytest.mark.skipif(len(_OWN) < 2, reason="needs two CPUs")
def test_ranks_and_their_children_run_where_they_are_put(tmp_path: Path) -> None:
    code = f"""
print(sorted(os.sched_getaffinity(0)))
sys.stdout.flush()
subprocess.run([sys.executable, "-c", {_SAY!r}], check=True)
"""
    run = job(tmp_path, code, ranks=2, bind="even")
    assert run.statuses == [0, 0]
    expected = [list(rank.cpus or ()) for rank in run.plan.ranks]
    assert sorted(expected[0] + expected[1]) == _OWN
    for rank in range(2):
        assert run.said(rank).splitlines() == [str(expected[rank])] * 2


def test_a_rank_that_cannot_be_bound_runs_all_the_same(tmp_path: Path) -> None:
    def change(planned: Plan) -> Plan:
        first, second, _ = planned.ranks
        first.cpus, second.cpus = (_OWN[0],), (_NOWHERE,)
        return planned

    run = job(tmp_path, "print(sorted(os.sched_getaffinity(0)))", change=change)
    assert run.statuses == [0, 0, 0]
    said = [run.said(rank).strip() for rank in range(3)]
    # Nobody inherits the CPUs of the rank before.
    assert said == [str([_OWN[0]]), str(_OWN), str(_OWN)]
    (told,) = [event for event in run.events if isinstance(event, NotBound)]
    assert (told.rank, told.text) == (1, os.strerror(22))
    assert run.attempt.not_bound == (told,)


def test_the_result_says_who_was_not_bound(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {_NOWHERE})
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        result = launch(config(tmp_path, "", 1, bind="even"), output=null)
    finally:
        os.close(null)
    assert result.code == 0
    assert result.notes == (
        "Could not pin rank 0 to its CPUs (Invalid argument); it runs on all CPUs available to the "
        "launcher.",
    )

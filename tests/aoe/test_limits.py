"""What a control group leaves of the machine, by the files of the kernel."""

import pytest

from ascend_session.aoe import machine as measured
from ascend_session.aoe.conditions import KnownFacts, check_resources
from ascend_session.aoe.machine import (
    Parallel,
    measure_cpu_quota,
    measure_machine,
    measure_memory_left,
)
from tests.aoe.conftest import ROOM, planned

GIB = 2**30


@pytest.fixture
def group(tmp_path):
    """Writes files of a fake host; measures there."""

    def group(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return measure_memory_left(str(tmp_path)), measure_cpu_quota(str(tmp_path))

    return group


def test_without_control_groups_nothing_is_limited(group):
    assert group({}) == (None, None)


def test_a_group_without_limits_limits_nothing(group):
    files = {"memory.max": "max\n", "memory.current": "5\n", "cpu.max": "max 100000\n"}
    found = {f"sys/fs/cgroup/job/{name}": text for name, text in files.items()}
    assert group({"proc/self/cgroup": "0::/job\n", **found}) == (None, None)


def test_the_second_version_has_limit_usage_and_quota(group):
    found = group(
        {
            "proc/self/cgroup": "0::/job\n",
            "sys/fs/cgroup/job/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/job/memory.current": f"{5 * GIB}\n",
            "sys/fs/cgroup/job/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            "sys/fs/cgroup/job/cpu.max": "450000 100000\n",
        }
    )
    assert found == (4 * GIB, 4.5)


def test_the_first_version_has_them_in_folders_of_their_own(group):
    found = group(
        {
            "proc/self/cgroup": "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n",
            "sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": f"{8 * GIB}\n",
            "sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes": f"{5 * GIB}\n",
            "sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us": "100000\n",
        }
    )
    assert found == (3 * GIB, 2.0)


def test_the_narrowest_group_on_the_way_to_the_top_counts(group):
    found = group(
        {
            "proc/self/cgroup": "0::/slice/job\n",
            "sys/fs/cgroup/slice/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/slice/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/slice/job/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/slice/job/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/slice/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/slice/cpu.max": "100000 100000\n",
        }
    )
    assert found == (GIB, 1.0)


def test_a_container_that_sees_its_group_as_the_top_is_limited_by_it(group):
    found = group(
        {
            "proc/self/cgroup": "0::/kubepods/pod1/abc\n",
            "sys/fs/cgroup/memory.max": f"{GIB}\n",
            "sys/fs/cgroup/memory.current": f"{2 * GIB}\n",
        }
    )
    assert found == (0, None)


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 5000, "1 2 3", "\x00"])
def test_nonsense_limits_nothing(group, text):
    files = dict.fromkeys(("memory.max", "memory.current", "cpu.max"), text)
    found = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert group({"proc/self/cgroup": f"nonsense\n0::/\n{text}", **found}) == (None, None)


def test_the_limit_counts_where_it_is_less_than_what_the_machine_has(monkeypatch):
    monkeypatch.setattr(measured, "measure_memory_left", lambda: 5)
    monkeypatch.setattr(measured, "measure_cpu_quota", lambda: 0.5)
    made = measure_machine({"HOME": "/tmp"})
    assert (made.memory, made.is_limited, made.quota) == (5, True, 0.5)


def test_a_limit_beyond_the_machine_is_none(monkeypatch):
    monkeypatch.setattr(measured, "measure_memory_left", lambda: 2**63 - 4096)
    made = measure_machine({"HOME": "/tmp"})
    assert made.memory < 2**63 - 4096
    assert not made.is_limited


def test_what_the_group_takes_away_is_said():
    small = ROOM._replace(memory=GIB, is_limited=True, quota=4.5)
    eight = Parallel(8, "it is 8")
    run = planned(small, known=KnownFacts(1, GIB), tuners=eight, compilers=eight)
    found = {one.name: one for one in check_resources(run)}
    assert found["memory"].verdict == found["CPUs"].verdict == "fails"
    assert "1 GiB of memory are left by the limit of the control group" in found["memory"].message
    assert "as of a container or batch job" in found["memory"].message
    assert (found["CPUs"].measured, found["CPUs"].needed) == (4, 74)
    assert "its control group lets it have the time of 4.5 of them" in found["CPUs"].message

"""What a control group leaves of the machine, by the files of the kernel."""

import re

import pytest

from tests.aoe.conftest import GIB, MEMORY


@pytest.fixture
def group(tuning):
    """Writes files of the kernel; gives what they leave of memory and CPUs, None for all of it."""

    def group(files):
        for name, text in files.items():
            tuning.host.write(name, text)
        found = tuning.conditions()
        left = found["memory"].measured
        quota = re.search(r"lets it have the time of ([0-9.]+) of them", found["CPUs"].message)
        return None if left == MEMORY else left, float(quota[1]) if quota else None

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
            "sys/fs/cgroup/slice/job/cpu.max": "400000 100000\n",
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


def test_a_limit_beyond_the_machine_is_none(group):
    most = f"{2**63 - 4096}\n"
    files = {"memory.max": most, "memory.current": "0\n", "cpu.max": "9700000 100000\n"}
    found = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert group({"proc/self/cgroup": "0::/\n", **found}) == (None, None)


def test_what_the_group_takes_away_is_said(tuning):
    tuning.host.write("proc/self/cgroup", "0::/\n")
    for name, text in (("memory.max", GIB), ("memory.current", 0), ("cpu.max", "450000 100000")):
        tuning.host.write(f"sys/fs/cgroup/{name}", f"{text}\n")
    found = tuning.conditions(training_memory=GIB)
    assert found["memory"].verdict == found["CPUs"].verdict == "fails"
    assert "1 GiB of memory are left by the limit of the control group" in found["memory"].message
    assert "as of a container or batch job" in found["memory"].message
    assert (found["CPUs"].measured, found["CPUs"].needed) == (4, 74)
    assert "its control group lets it have the time of 4.5 of them" in found["CPUs"].message

"""Processes of a fake ``/proc``, and of the real one."""

import os
import shutil
from pathlib import Path
from typing import List, Optional, Sequence

import psutil
import pytest

from ascend_session.hardware.npu_smi import Process
from ascend_session.hardware.processes import (
    Holder,
    list_holders,
    open_devices,
    proc_problem,
    read_command,
    read_start,
)
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import USER, FakeHost

NOBODY = 65534
ONE_UNREADABLE = (
    "The open files of 1 process(es) of other users could not be inspected; a holder among them is "
    "known only if npu-smi lists it."
)


def test_links_to_device_nodes_are_found(host: FakeHost) -> None:
    host.process(100, "python3 train.py", devices=[0, 3])
    host.process(20, "python3 other.py", devices=[3, 12])
    host.process(7, "bash")
    found = open_devices(str(host.root))
    assert found.pids == {0: [100], 3: [20, 100], 12: [20]}
    assert found.notes == []
    assert all(isinstance(device, PhysicalDeviceId) for device in found.pids)


@pytest.mark.parametrize(
    ("target", "held"),
    [
        ("/dev/davinci5", [5]),
        ("/dev/davinci15", [15]),
        ("/dev/vdavinci100", [100]),
        ("/dev/davinci5 (deleted)", [5]),
        ("{root}/dev/davinci5", [5]),
        ("/elsewhere/dev/davinci5", []),
        ("/dev/davinci_manager", []),
        ("/tmp/davinci5", []),
        ("/dev/davinci5x", []),
        ("/dev/davinci", []),
        ("pipe:[5]", []),
    ],
)
def test_only_device_nodes_count(host: FakeHost, target: str, held: object) -> None:
    host.process(7, "x")
    (host.root / "proc/7/fd/9").symlink_to(target.format(root=host.root))
    assert list(open_devices(str(host.root)).pids) == held


def test_on_the_real_host_a_container_may_have_its_nodes_anywhere(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    with open(tmp_path / "dev/davinci987654", "w"):
        assert open_devices("/").pids[PhysicalDeviceId(987654)] == [os.getpid()]


def test_processes_that_end_meanwhile_are_nothing_special(host: FakeHost) -> None:
    host.process(7, "x", devices=[1])
    host.process(8, "x", devices=[1])
    host.process(9, "x", devices=[1])
    shutil.rmtree(str(host.root / "proc/7/fd"))
    (host.root / "proc/8/fd/3").unlink()
    (host.root / "proc/8/fd/3").write_text("no link")
    assert open_devices(str(host.root)) == ({1: [9]}, [])


def test_a_host_without_proc_has_no_holders(tmp_path: Path) -> None:
    assert open_devices(str(tmp_path)).pids == {}


def test_processes_of_others_are_counted(host: FakeHost) -> None:
    host.process(7, "x", devices=[1])
    host.process(8, "x", devices=[1])
    host.process(9, "x", devices=[1])
    # A kernel thread has no command line, and is of no interest.
    (host.root / "proc/8/cmdline").write_bytes(b"")
    for pid in (7, 8):
        (host.root / f"proc/{pid}/fd").chmod(0)
    previous, effective = os.getcwd(), os.geteuid()
    os.chdir(str(host.root))
    try:
        # What stops other users does not stop root; relative, for others cannot see the folder.
        os.seteuid(NOBODY if effective == 0 else effective)
        found = open_devices(".")
    finally:
        os.seteuid(effective)
        os.chdir(previous)
        for pid in (7, 8):
            (host.root / f"proc/{pid}/fd").chmod(0o755)
    assert found == ({1: [9]}, [ONE_UNREADABLE])


def test_open_files_that_cannot_be_listed_count_as_not_seen(host: FakeHost) -> None:
    host.process(7, "x", devices=[1])
    host.process(9, "x", devices=[1])
    shutil.rmtree(str(host.root / "proc/7/fd"))
    (host.root / "proc/7/fd").symlink_to("fd")
    assert open_devices(str(host.root)) == ({1: [9]}, [ONE_UNREADABLE])


def test_a_proc_that_shows_nothing_says_why(host: FakeHost) -> None:
    assert proc_problem(str(host.root)) is None
    shutil.rmtree(str(host.root / "proc"))
    assert proc_problem(str(host.root)) == "No such file or directory"


def test_commands_keep_their_arguments(host: FakeHost) -> None:
    host.process(7, "python3 train.py --epochs 3")
    assert read_command(str(host.root), 7) == "python3 train.py --epochs 3"


def test_a_process_without_a_command_line_has_its_name(host: FakeHost) -> None:
    host.process(7, "kworker")
    (host.root / "proc/7/cmdline").write_bytes(b"")
    assert read_command(str(host.root), 7) == "kworker"


def test_a_process_that_is_gone_has_no_command(host: FakeHost) -> None:
    assert read_command(str(host.root), 7) is None
    assert read_start(str(host.root), 7) is None


def test_a_process_began_so_long_after_the_host(host: FakeHost) -> None:
    host.process(7, "python3", seconds=123.5)
    assert read_start(str(host.root), 7) == host.begun(123.5)


@pytest.mark.parametrize(
    "stat",
    ["", "7 (x) S 1 2", "7 (x) S " + "x " * 40, "7 (x) S " + "0 " * 18 + "9" * 400 + " 0"],
)
def test_a_strange_stat_gives_no_start(host: FakeHost, stat: str) -> None:
    host.process(7, "x")
    (host.root / "proc/7/stat").write_text(stat)
    assert read_start(str(host.root), 7) is None


def test_without_a_boot_time_there_is_no_start(host: FakeHost) -> None:
    host.process(7, "x")
    (host.root / "proc/stat").write_text("cpu 1 2 3\n")
    assert read_start(str(host.root), 7) is None


def test_the_real_proc_says_the_same_as_psutil() -> None:
    me = psutil.Process()
    assert read_command("/", me.pid) == " ".join(word for word in me.cmdline() if word)
    assert read_start("/", me.pid) == pytest.approx(me.create_time(), abs=1.5)


ZERO, ONE = PhysicalDeviceId(0), PhysicalDeviceId(1)


def holders_of(
    host: FakeHost, device: PhysicalDeviceId, listed: Sequence[Process] = ()
) -> List[Holder]:
    root = str(host.root)
    return list_holders(root, listed, open_devices(root).pids.get(device, ()))


def test_a_holder_has_its_command_and_its_beginning(host: FakeHost) -> None:
    host.process(100, "python3 train.py", devices=[1], seconds=5)
    assert holders_of(host, ONE) == [
        Holder(100, "python3 train.py", host.begun(5), None, own=False, here=True, user=USER)
    ]


def test_the_list_adds_the_memory(host: FakeHost) -> None:
    host.process(100, "python3 train.py", devices=[1])
    listed = [Process(1, 0, 100, "python3", 30000, None)]
    (holder,) = holders_of(host, ONE, listed)
    assert (holder.pid, holder.command, holder.memory_mb) == (100, "python3 train.py", 30000)


def test_a_holder_may_be_known_to_the_list_only(host: FakeHost) -> None:
    listed = [Process(0, 0, 4321, "python3", 7, None)]
    assert holders_of(host, ZERO, listed) == [
        Holder(4321, "python3", None, 7, own=False, here=False)
    ]


def test_a_process_here_that_only_has_the_same_number_is_no_holder(host: FakeHost) -> None:
    host.process(57, "bash -l")
    listed = [Process(0, 0, 57, "python3", 7, None)]
    assert holders_of(host, ZERO, listed) == [Holder(57, "python3", None, 7, own=False, here=False)]


@pytest.mark.parametrize(
    ("name", "devices", "container_pid"),
    [
        # It may have been renamed, ...
        ("python3", [0], None),
        # ... not have the node open now, ...
        ("ray::Worker", [], None),
        ("/usr/bin/ray::Worker", [], None),
        ("", [], None),
        # ... or be known by its number in this container.
        ("python3", [], 57),
    ],
)
def test_a_listed_process_is_the_one_here_if_anything_speaks_for_it(
    host: FakeHost, name: str, devices: List[int], container_pid: Optional[int]
) -> None:
    host.process(57, "ray::Worker train", devices=devices)
    listed = [Process(0, 0, 57, name, 7, container_pid)]
    (holder,) = holders_of(host, ZERO, listed)
    assert (holder.command, holder.here) == ("ray::Worker train", True)


def test_a_process_is_the_one_that_is_listed_although_the_kernel_cuts_its_name(
    host: FakeHost,
) -> None:
    host.process(57, "python3 train.py")
    (host.root / "proc/57/comm").write_text("data_loader_wor\n")
    listed = [Process(0, 0, 57, "data_loader_worker", 7, None)]
    (holder,) = holders_of(host, ZERO, listed)
    assert (holder.command, holder.here) == ("python3 train.py", True)


def test_without_proc_it_is_said_that_holders_may_be_missing(host: FakeHost) -> None:
    shutil.rmtree(str(host.root / "proc"))
    listed = [Process(0, 0, 57, "python3", 7, None)]
    assert [holder.pid for holder in holders_of(host, ZERO, listed)] == [57]
    assert open_devices(str(host.root)).notes == [
        "/proc could not be read: No such file or directory. Who holds a device is known only if "
        "npu-smi lists it."
    ]


def test_in_a_container_its_own_number_counts(host: FakeHost) -> None:
    host.process(57, "python3 train.py", devices=[0])
    listed = [Process(0, 0, 90412, "", 7, 57)]
    (holder,) = holders_of(host, ZERO, listed)
    assert (holder.pid, holder.memory_mb, holder.here) == (57, 7, True)


def test_holders_ascend(host: FakeHost) -> None:
    host.process(30, "b", devices=[0])
    host.process(200, "c", devices=[0])
    listed = [Process(0, 0, 100, "a", 7, None)]
    found = holders_of(host, ZERO, listed)
    assert [holder.pid for holder in found] == [30, 100, 200]


def test_the_asking_process_is_marked(host: FakeHost) -> None:
    host.process(os.getpid(), "python3", devices=[0])
    host.process(7, "python3", devices=[0])
    ours = {pid.pid: pid.own for pid in holders_of(host, ZERO)}
    assert ours == {os.getpid(): True, 7: False}

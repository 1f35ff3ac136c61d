"""Tensors that travel: all of their bytes, and the same ones to all ranks."""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from ascend_session.backends.exchange import memory
from ascend_session.backends.exchange.memory import (
    Buffers,
    create_shared_memory,
    map_shared_memory,
)
from ascend_session.errors import CollectiveError
from tests.backends.exchange.jobs import Job, Member

FAILED = "failed"

# Blocks so small that tensors have many of them, and are not divided evenly.
SMALL_BLOCKS = {
    "messages.SMALL_BYTES": 8192,
    "transfers.BLOCK_BYTES": 4096 + 64,
    "transfers.MEMORY_BYTES": 1 << 20,
}


def reduce(members: List[Member], key: str, **given: Any) -> List[Any]:
    """Reduce on these ranks; the digest, the same on all, and by how much the result is wrong."""
    ranks = [member.rank for member in members]
    for member in members:
        member.do("reduce", key, {"ranks": ranks, **given})
    found = [member.expect("reduced", key) for member in members]
    assert found == [found[0]] * len(members)
    return found[0]


def share(members: List[Member], key: str, sizes: List[int], **given: Any) -> None:
    """Let these ranks share so many bytes each, and see that all have the right ones."""
    ranks = [member.rank for member in members]
    for member in members:
        member.do("share", key, {"ranks": ranks, "sizes": sizes, **given})
    found = [member.expect("shared", key) for member in members]
    assert found == [[found[0][0], True]] * len(members)


# On one node.


def test_the_sum_is_exact_and_has_the_same_bits_whatever_the_size(job: Job) -> None:
    job.settings = SMALL_BLOCKS
    members = job.together(3, begin="open")
    for count in (0, 1, 2, 3, 15, 1039, 1040, 1041, 2079, 4096, 8192, 8193, 100003):
        for dtype in ("int32", "float64", "int8"):
            _, difference = reduce(members, f"{dtype} {count}", count=count, dtype=dtype)
            assert difference < 1e-13


def test_what_just_travels_with_the_agreement_and_what_just_does_not_is_exact(job: Job) -> None:
    members = job.together(3, begin="open")
    for count in (16_383, 16_384, 16_385):
        assert reduce(members, f"k {count}", count=count, dtype="int32")[1] == 0
    for sizes in ([21_845, 21_845, 21_845], [21_846, 21_845, 21_845], [0, 65_536, 0]):
        share(members, f"l {sizes}", sizes)


@pytest.mark.parametrize(
    ("size_bytes", "is_long"), [(60_000, False), (1 << 20, False), (9 << 20, True)]
)
def test_a_rank_with_little_patience_does_what_is_short_at_once_though_it_has_nothing_itself(
    job: Job, size_bytes: int, is_long: bool
) -> None:
    members = job.together(2, begin="open")
    given = {"ranks": [0, 1], "sizes": [size_bytes, 0]}
    for member, patience_s in zip(members, (None, 60.0)):
        member.do("share", "k", {**given, "patience_s": patience_s})
    if is_long:
        members[1].expect("not yet", "k")
    assert [member.expect("shared", "k")[1] for member in members] == [True, True]


def test_a_rank_whose_patience_ends_is_told_whether_others_were_waited_for(job: Job) -> None:
    members = job.together(2, begin="open")
    given = {"ranks": [0, 1], "sizes": [0, 5]}
    members[1].do("share", "k", {**given, "patience_s": 0.01})
    assert members[1].expect("not yet", "k") == [True]
    members[0].do("share", "k", given)
    assert [member.expect("shared", "k")[1] for member in members] == [True, True]
    given = {"ranks": [0, 1], "sizes": [0, 9 << 20]}
    members[0].do("share", "l", given)
    members[1].do("share", "l", {**given, "patience_s": 60.0})
    assert members[1].expect("not yet", "l") == [False]
    assert [member.expect("shared", "l")[1] for member in members] == [True, True]


@pytest.mark.parametrize("kept_bytes", [16 * 1024, 1 << 30])
def test_what_no_message_of_this_machine_takes_goes_through_shared_memory(
    job: Job, kept_bytes: int
) -> None:
    job.settings["peer._HEADER_BYTES"] = kept_bytes  # as if a socket took so much less
    members = job.together(2, begin="open")
    assert reduce(members, "k", count=16_000, dtype="int32")[1] == 0
    maps = Path(f"/proc/{members[1].pid}/maps").read_text()
    assert ("(deleted)" in maps) is (kept_bytes == 1 << 30)


@pytest.mark.parametrize("count", [5, 30011])
def test_every_reduction_of_every_dtype(job: Job, count: int) -> None:
    job.settings = SMALL_BLOCKS
    members = job.together(2, begin="open")
    limits = {"float32": 1e-5, "float16": 1e-1}
    dtypes = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    for dtype in [*dtypes, "float16", "float32", "float64"]:
        for reduction in ("sum", "prod", "max", "min"):
            given = {"count": count, "dtype": dtype, "reduction": reduction}
            _, difference = reduce(members, f"{reduction} {dtype}", **given)
            assert difference <= limits.get(dtype, 1e-13), (reduction, dtype)


def test_tensors_of_many_megabytes(job: Job) -> None:
    members = job.together(3, begin="open")
    assert reduce(members, "floats", count=3_000_001)[1] < 1e-5
    assert reduce(members, "integers", count=2_500_003, dtype="int32")[1] == 0
    share(members, "bytes", [5_000_001, 0, 2_097_153])


def test_each_rank_may_have_another_size(job: Job) -> None:
    job.settings = SMALL_BLOCKS
    members = job.together(3, begin="open")
    for number, sizes in enumerate(
        [[0, 0, 0], [1, 0, 0], [0, 0, 7], [4160, 4161, 4159], [0, 99999, 1], [50000, 3, 12480]]
    ):
        share(members, f"sizes {number}", sizes)


def test_one_collective_may_have_another_size_in_each_run(job: Job) -> None:
    members = job.together(2, begin="open")
    for count in (10, 3_000_000, 10, 100_000, 0, 5_000_000):
        given = {"count": count, "dtype": "int32", "signature": f"[{count}]"}
        assert reduce(members, "k", **given)[1] == 0


def test_memory_that_grows_leaves_no_file_open(job: Job) -> None:
    members = job.together(2, begin="open")
    reduce(members, "small", count=100_000)
    before = _count_descriptors(members[1].pid)
    reduce(members, "large", count=1_000_000)
    assert _count_descriptors(members[1].pid) == before


def _count_descriptors(pid: int) -> int:
    """Count those of a process without the files of /proc that a rank reads for a moment."""
    targets = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            targets.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return sum(not target.startswith("/proc/") for target in targets)


def test_memory_of_a_result_is_used_again_when_nobody_has_the_result_any_more() -> None:
    buffers = Buffers()
    first = buffers.take([1 << 20], "uint8")
    first[:] = 1
    buffers.take([1 << 20], "uint8")[:] = 2
    assert (first == 1).all()
    address = first.ctypes.data
    del first
    third, fourth = buffers.take([1 << 20], "uint8"), buffers.take([1 << 20], "uint8")
    assert address in (third.ctypes.data, fourth.ctypes.data)


def test_many_collectives_at_once_from_as_many_threads(job: Job) -> None:
    members = job.together(3, begin="open")
    keys = {f"key {number}": (1, 3000, 30000, 700000)[number % 4] for number in range(12)}
    for member in members:
        # Each begins them in an order of its own.
        for key in sorted(keys, key=lambda key: hash_of(key, member.rank)):
            given = {"ranks": [0, 1, 2], "count": keys[key], "dtype": "int64"}
            member.do("reduce", key, given)
    found: List[Dict[str, Any]] = [
        {key: (digest, difference) for key, digest, difference in _next(member, "reduced", 12)}
        for member in members
    ]
    assert found == [found[0]] * 3
    assert {difference for _, difference in found[0].values()} == {0.0}


def hash_of(key: str, rank: int) -> int:
    return (int(key.split()[1]) * 7 + rank * 5) % 12


def _next(member: Member, word: str, count: int) -> Iterator[List[Any]]:
    return (member.expect(word) for _ in range(count))


def test_groups_do_not_disturb_each_other(job: Job) -> None:
    members = job.together(4, begin="open")
    groups = {"all": [0, 1, 2, 3], "even": [0, 2], "odd": [1, 3], "last": [3], "some": [0, 2, 3]}
    for member in members:
        for key, ranks in sorted(groups.items(), reverse=member.rank % 2 == 1):
            if member.rank in ranks:
                given = {"ranks": ranks, "count": 600_000, "dtype": "int32"}
                member.do("reduce", key, given)
    digests: Dict[str, List[str]] = {key: [] for key in groups}
    for member in members:
        count = sum(member.rank in ranks for ranks in groups.values())
        for key, digest, difference in _next(member, "reduced", count):
            assert difference == 0
            digests[key].append(digest)
    for key, ranks in groups.items():
        assert digests[key] == digests[key][:1] * len(ranks)


def test_a_rank_alone_in_a_group_exchanges_nothing(job: Job) -> None:
    members = job.together(2, begin="open")
    assert reduce(members[1:], "k", count=500_000)[1] < 1e-6
    share(members[:1], "l", [300_000])


def test_sixteen_ranks_have_room_for_a_block_each(job: Job) -> None:
    members = job.together(16, begin="open")
    assert reduce(members, "k", count=600_000, dtype="int32")[1] == 0
    share(members, "l", [rank * 10_000 for rank in range(16)])


# On several nodes.


def test_two_nodes_reckon_as_one(job: Job, forking_python: str) -> None:
    job.settings = SMALL_BLOCKS
    members = job.apart(2, 1, begin="open")
    with contextlib.closing(Job(forking_python)) as other:
        alone = other.together(3, begin="open")
        for count in (0, 3, 1041, 30011):
            for reduction in ("sum", "max"):
                given = {"count": count, "reduction": reduction}
                key = f"{reduction} {count}"
                exact = {"dtype": "int64", **given}
                assert reduce(members, f"{key} int", **exact) == reduce(
                    alone, f"{key} int", **exact
                )
                assert reduce(members, f"{key} float", **given)[1] < 1e-5
    share(members, "ragged", [0, 99999, 4161])
    share(members, "more", [30000, 0, 50000])


def test_three_nodes_exchange_with_each_other(job: Job) -> None:
    members = job.apart(1, 2, 1, begin="open")
    assert reduce(members, "integers", count=1_200_000, dtype="int32")[1] == 0
    assert reduce(members, "floats", count=700_000)[1] < 1e-5
    share(members, "bytes", [3_000_000, 1, 0, 70_000])


def test_tensors_of_many_megabytes_between_nodes(job: Job) -> None:
    members = job.apart(1, 2, begin="open")
    assert reduce(members, "integers", count=3_000_001, dtype="int32")[1] == 0
    share(members, "bytes", [5_000_001, 300_000, 0])


def test_groups_on_some_of_the_nodes(job: Job) -> None:
    members = job.apart(2, 2, begin="open")
    for ranks in ([0, 1], [2, 3], [1, 2], [0, 3], [1, 2, 3], [3]):
        some = [members[rank] for rank in ranks]
        assert reduce(some, f"reduce {ranks}", count=300_000, dtype="int32")[1] == 0
        share(some, f"share {ranks}", [20_000 * rank for rank in ranks])


def test_many_collectives_at_once_between_nodes(job: Job) -> None:
    members = job.apart(1, 2, begin="open")
    keys = [f"key {number}" for number in range(6)]
    for member in members:
        for key in keys if member.rank else reversed(keys):
            given = {"ranks": [0, 1, 2], "count": 400_000, "dtype": "int32"}
            member.do("reduce", key, given)
    found = [
        {key: (digest, difference) for key, digest, difference in _next(member, "reduced", 6)}
        for member in members
    ]
    assert found == [found[0]] * 3
    assert {difference for _, difference in found[0].values()} == {0.0}


# Shared memory that is small, or missing.


@pytest.fixture
def small_folder(tmp_path: Path) -> Iterator[str]:
    """A file system of 1 MB."""
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mounting, stderr=subprocess.PIPE).returncode:
        pytest.skip("this process cannot mount anything")
    yield str(tmp_path)
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_in_a_small_folder_blocks_are_smaller(job: Job, small_folder: str) -> None:
    job.settings["memory.FOLDERS"] = [small_folder]
    members = job.together(3, begin="open")
    assert reduce(members, "large", count=2_000_001, dtype="int32")[1] == 0
    share(members, "ragged", [3_000_001, 0, 5])
    assert reduce(members, "again", count=30_000, dtype="int32")[1] == 0
    assert os.listdir(small_folder) == []


def test_a_folder_without_room_is_passed_over(job: Job, small_folder: str) -> None:
    Path(small_folder, "file").write_bytes(b"x" * (1 << 20))
    job.settings["memory.FOLDERS"] = ["/missing", small_folder, "/tmp"]
    members = job.together(2, begin="open")
    assert reduce(members, "k", count=2_000_001, dtype="int32")[1] == 0


def test_without_any_room_all_ranks_hear_what_to_do(job: Job, small_folder: str) -> None:
    Path(small_folder, "file").write_bytes(b"x" * (1 << 20))
    job.settings["memory.FOLDERS"] = ["/missing", small_folder]
    members = job.together(3, begin="open")
    _assert_no_room(members, ["/missing: No such file", f"{small_folder}: No space left"])


def test_memory_that_cannot_grow_is_used_as_it_is(job: Job, small_folder: str) -> None:
    job.settings["memory.FOLDERS"] = [small_folder]
    members = job.together(2, begin="open")
    assert reduce(members, "small", count=30_000, dtype="int32")[1] == 0
    assert os.statvfs(small_folder).f_bavail == 0
    assert reduce(members, "large", count=900_000, dtype="int32")[1] == 0


def test_a_limit_on_the_size_of_files_makes_blocks_smaller(job: Job) -> None:
    members = job.together(3, begin="open")
    members[0].do("limit", 300_000)
    assert reduce(members, "k", count=700_001, dtype="int32")[1] == 0
    share(members, "l", [1_000_001, 0, 17])


def test_too_low_a_limit_on_the_size_of_files_is_an_error(job: Job) -> None:
    members = job.together(2, begin="open")
    members[0].do("limit", 10_000)
    _assert_no_room(members, ["/dev/shm: File too large", "/tmp: File too large"])


def test_on_several_nodes_the_one_without_room_is_named(job: Job) -> None:
    members = job.apart(1, 2, begin="open")
    members[1].do("limit", 10_000)
    _assert_no_room(members, ["File too large"])


def _assert_no_room(members: List[Member], words: List[str]) -> None:
    ranks = [member.rank for member in members]
    for member in members:
        member.do("reduce", "k", {"ranks": ranks, "count": 1_000_000})
    for member in members:
        sentence, kind = member.expect(FAILED, "k")
        assert kind == "CollectiveError"
        assert "of shared memory, in which the ranks of this machine exchange tensors" in sentence
        assert all(word in sentence for word in words)
        assert "docker run --shm-size=1g" in sentence
    for member in members:
        assert member.run_out() == 0


def test_a_file_that_is_smaller_than_asked_for_says_so(
    monkeypatch: pytest.MonkeyPatch, small_folder: str
) -> None:
    monkeypatch.setattr(memory, "FOLDERS", (small_folder,))
    before = os.listdir("/proc/self/fd")
    descriptor, size_bytes = create_shared_memory(8 << 20)
    try:
        assert size_bytes in (1 << 20, 1 << 19)
        array = map_shared_memory(descriptor, size_bytes)
        array[:] = 7  # no SIGBUS
        assert array.sum() == 7 * size_bytes
        del array
        with pytest.raises(CollectiveError, match="no room for 1024 KB of shared memory"):
            create_shared_memory(8 << 20, 1 << 20)
    finally:
        os.close(descriptor)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert os.listdir(small_folder) == []


def test_files_have_no_name_and_all_of_their_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "FOLDERS", (str(tmp_path / "missing"), str(tmp_path)))
    descriptor, size_bytes = create_shared_memory(1 << 20)
    try:
        found = os.fstat(descriptor)
        assert (size_bytes, found.st_size, found.st_nlink) == (1 << 20, 1 << 20, 0)
        assert found.st_blocks * 512 >= 1 << 20
        assert found.st_mode & 0o077 == 0
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)
    assert list(tmp_path.iterdir()) == []

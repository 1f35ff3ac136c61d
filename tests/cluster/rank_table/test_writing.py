"""Tables as text and as files: whole, or not there at all."""

import json
import os
import stat
import threading

import pytest

from ascend_session import JobError, RankTable
from tests.cluster.rank_table.tables import parsed, v1_0, v1_2


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out" / "hccl.json"


@pytest.fixture(autouse=True)
def folder(target):
    target.parent.mkdir()


def left(target):
    return sorted(os.listdir(target.parent))


def test_the_text_is_json_of_texts_only_one_device_on_a_line():
    text = parsed(v1_0()).text()
    assert json.loads(text) == v1_0()
    assert '      {"device_id": "1", "device_ip": "192.168.1.9", "rank_id": "1"}\n' in text


def test_version_1_2_is_written_with_its_superpods():
    assert json.loads(parsed(v1_2()).text()) == v1_2()
    assert json.loads(parsed(v1_2()).text("1.2")) == v1_2()


def test_version_1_0_of_a_table_of_1_2_has_no_superpods():
    written = json.loads(parsed(v1_2()).text("1.0"))
    assert written["version"] == "1.0"
    assert "super_pod_list" not in written
    assert "super_device_id" not in json.dumps(written)


def test_version_1_2_of_a_table_without_superpods_is_refused_with_what_is_missing():
    with pytest.raises(JobError) as caught:
        parsed(v1_0(servers=5, devices=1)).text("1.2")
    assert caught.value.message == (
        "Version 1.2 needs the superpod (super_pod_id) of server node_0, node_1, node_2 and 2 "
        "more and the super_device_id of rank 0, rank 1, rank 2 and 2 more."
    )
    assert "spod-info" in caught.value.hint


@pytest.mark.parametrize("version", ["1.1", "2.0", "template 2", 1.0])
def test_other_versions_are_not_written(version):
    with pytest.raises(JobError, match=r"are written in version 1\.0 or 1\.2"):
        parsed(v1_0()).text(version)


def test_a_file_that_is_there_is_left_alone_without_force(target):
    target.write_text("mine")
    with pytest.raises(JobError, match="already exists") as caught:
        parsed(v1_0()).write(str(target))
    assert caught.value.hint == "Give force to replace it."
    assert (target.read_text(), left(target)) == ("mine", ["hccl.json"])
    parsed(v1_0()).write(str(target), force=True)
    assert RankTable.read(str(target)) == parsed(v1_0())
    assert left(target) == ["hccl.json"]


def test_a_new_file_has_the_permissions_that_new_files_have(target):
    plain = target.parent / "plain"
    plain.touch()
    parsed(v1_0()).write(str(target))
    assert target.stat().st_mode == plain.stat().st_mode


def test_a_replaced_file_keeps_its_permissions_and_a_link_its_place(target):
    real = target.parent / "real.json"
    real.write_text("old")
    real.chmod(0o640)
    target.symlink_to(real)
    parsed(v1_0()).write(str(target), force=True)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert target.is_symlink()
    assert RankTable.read(str(target)).size == 4


def test_a_link_that_leads_nowhere_is_there_already(target):
    target.symlink_to(target.parent / "nowhere.json")
    with pytest.raises(JobError, match="already exists"):
        parsed(v1_0()).write(str(target))


@pytest.mark.parametrize("name", ["hccl", "hccl.txt", "hccl.json.bak", "a.json.json", ".json.d/x"])
def test_a_name_that_hccl_does_not_take_is_not_written(target, name):
    with pytest.raises(JobError, match=r"HCCL takes a name that ends in \.json"):
        parsed(v1_0()).write(str(target.parent / name), force=True)
    assert left(target) == []


def test_what_cannot_be_written_is_an_error_and_nothing_is_left(target):
    (target.parent / "folder.json").mkdir()
    os.mkfifo(target.parent / "pipe.json")
    for name, words in (
        ("folder.json", "Is a directory"),
        ("pipe.json", "It is a pipe or a device"),
        ("none/hccl.json", "No such file or directory"),
        ("pipe.json/hccl", "HCCL takes a name"),
    ):
        with pytest.raises(JobError, match=words):
            parsed(v1_0()).write(str(target.parent / name), force=True)
    assert left(target) == ["folder.json", "pipe.json"]


def test_a_full_disk_leaves_what_was_there(target):
    import resource

    target.write_text("mine")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(JobError, match="cannot be written: File too large"):
            parsed(v1_0()).write(str(target), force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert (target.read_text(), left(target)) == ("mine", ["hccl.json"])


def test_whoever_reads_while_it_is_written_sees_one_table_or_the_other(target):
    small, large = parsed(v1_0()), parsed(v1_0(servers=32, devices=8))
    small.write(str(target))
    seen, over = set(), threading.Event()

    def look():
        while not over.is_set():
            seen.add(RankTable.read(str(target)).size)

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(40):
        (large if turn % 2 else small).write(str(target), force=True)
    over.set()
    reader.join()
    assert seen <= {4, 256}
    assert seen


def test_a_table_that_hccl_would_refuse_is_not_written(target):
    table = v1_0()
    table["server_list"][1]["device"][0]["rank_id"] = "0"
    with pytest.raises(JobError, match="which 2 devices have"):
        parsed(table).write(str(target))
    assert left(target) == []


def test_a_table_at_initializing_may_be_written(target):
    parsed({**v1_0(), "status": "initializing"}).write(str(target))
    assert RankTable.read(str(target)).status == "initializing"


def test_names_of_servers_are_kept_whatever_they_are(target):
    table = RankTable.build({'né "0"\\\t\u2028': {0: None}})
    table.write(str(target))
    assert RankTable.read(str(target)) == table

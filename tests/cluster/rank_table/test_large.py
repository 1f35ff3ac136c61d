"""8,192 servers of eight devices: seconds, and no step that grows with the square."""

import time

from ascend_session import RankTable
from ascend_session.hardware.families import family

SERVERS, DEVICES = 8192, 8
LIMIT = 300  # seconds of this process, for machines that are slow and busy


def test_a_table_of_65536_ranks_is_built_checked_written_and_read_in_seconds(tmp_path):
    servers = {
        f"node_{n}": {d: f"10.{n >> 8}.{n & 255}.{d + 1}" for d in range(DEVICES)}
        for n in range(SERVERS)
    }
    path = str(tmp_path / "hccl.json")
    began = time.process_time()
    built = RankTable.build(servers)
    built.check(family("910B"))
    built.write(path)
    read = RankTable.read(path)
    spent = time.process_time() - began
    assert read == built
    assert read.size == SERVERS * DEVICES
    assert spent < LIMIT


def test_the_time_grows_with_the_size_and_not_with_its_square():
    def spent(servers):
        made = {f"n{n}": {0: f"10.{n >> 8}.{n & 255}.1"} for n in range(servers)}
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            RankTable.merge([RankTable.build(made)]).check()
            best = min(best, time.process_time() - began)
        return best

    # Sixteen times as many servers: sixteen times the time, and far below 256 times.
    assert spent(4096) < 100 * max(spent(256), 0.001)


def test_a_table_in_which_every_device_is_wrong_is_told_in_a_few_lines():
    servers = {f"n{n}": {d: f"10.{n >> 8}.{n & 255}.{d + 1}" for d in range(8)} for n in range(512)}
    table = RankTable.build(servers)
    broken = [
        server._replace(devices=tuple(d._replace(rank_id=7, device_ip=()) for d in server.devices))
        for server in table.servers
    ]
    found = RankTable("1.0", "completed", tuple(broken)).problems()
    assert len(found) < 50
    assert any(one.message == "And 4,086 more like the last one." for one in found)

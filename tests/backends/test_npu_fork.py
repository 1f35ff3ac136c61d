"""A process that is forked while the device is open leaves it alone, also at its end."""

import json
from pathlib import Path

from tests.fake_host.vendor import environment, live_host, recorded
from tests.running import Host


def test_a_forked_child_cannot_run_and_its_exit_does_not_finalise_the_device(
    tmp_path: Path, programs: Host
) -> None:
    host = live_host(tmp_path, chips=2)
    try:
        ended = programs.run("on_npu", json.dumps(environment(host)), "fork")
        assert ended.code == 0, ended.log
        _, before, refused, child, after, _ = ended.lines
        assert refused == "This tf.Session was opened in process P"
        assert (before, child.split(" ")[2:], after) == ("2.0", ["ended", str(3 << 8)], "2.0")
        # Neither by the exit handler of npu_bridge nor by the destructor of the adapter's library.
        pid = int(child.split(" ")[1])
        assert [entry["call"] for entry in recorded(host) if entry["pid"] == pid] == []
    finally:
        host.close()

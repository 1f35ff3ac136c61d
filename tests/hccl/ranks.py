"""This process as one rank of a job on a fake host."""

import contextlib
import json
from typing import Any, Iterator

__all__ = ["job_of"]


@contextlib.contextmanager
def job_of(host: Any, size: int, rank: int, monkeypatch: Any) -> Iterator[None]:
    """A rank table of ``size`` ranks on one server, and the variables of one of them."""
    devices = [
        {"device_id": str(n), "device_ip": f"192.168.1.{8 + n}", "rank_id": str(n)}
        for n in range(size)
    ]
    table = {
        "version": "1.0",
        "status": "completed",
        "server_count": "1",
        "server_list": [{"server_id": "node_0", "device": devices}],
    }
    path = host.write("usr/local/Ascend/rank_table.json", json.dumps(table))
    with monkeypatch.context() as patch:
        patch.setenv("RANK_TABLE_FILE", str(path))
        patch.setenv("RANK_SIZE", str(size))
        patch.setenv("RANK_ID", str(rank))
        patch.setenv("ASCEND_DEVICE_ID", str(rank))
        patch.setenv("JOB_ID", "1")
        yield

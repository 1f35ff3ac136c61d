"""This process as one rank of a job on a fake host."""

import contextlib
import json
from typing import Any, Dict, Iterator

__all__ = ["job_of", "variables_of"]


def variables_of(host: Any, size: int, rank: int) -> Dict[str, str]:
    """Write a rank table of ``size`` ranks on one server; return the variables of one of them."""
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
    return {
        "RANK_TABLE_FILE": str(path),
        "RANK_SIZE": str(size),
        "RANK_ID": str(rank),
        "ASCEND_DEVICE_ID": str(rank),
        "JOB_ID": "1",
    }


@contextlib.contextmanager
def job_of(host: Any, size: int, rank: int, monkeypatch: Any) -> Iterator[None]:
    """Make this process one of ``size`` ranks on one server."""
    with monkeypatch.context() as patch:
        for name, value in variables_of(host, size, rank).items():
            patch.setenv(name, value)
        yield

"""Knows what rank tables are compared with: the same JSON, with nothing checked."""

import json
import tempfile
from pathlib import Path
from time import process_time
from typing import Any, Dict, Iterator, List

from ascend_session import RankTable
from timing import Row, best

SERVERS, DEVICES = 8192, 8


def tables(repeat: int) -> Iterator[Row]:
    """Compare a table of 65,536 ranks with ``json.dumps`` and ``json.loads`` of the same."""
    servers = {
        f"node_{number}": {
            device: f"10.{number >> 8}.{number & 255}.{device + 1}" for device in range(DEVICES)
        }
        for number in range(SERVERS)
    }
    table = RankTable.build(servers)
    plain = json.loads(table.text())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "hccl.json")
        found = best(
            {"ours": lambda: _ours(table, path), "theirs": lambda: _theirs(plain, path)}, repeat
        )
    ranks = f"{SERVERS * DEVICES:,} ranks"
    yield Row(
        f"{ranks}: check, write, read",
        found["ours"],
        "json.dumps, write, json.loads, with nothing checked",
        found["theirs"],
        10.0,
    )


def _ours(table: RankTable, path: str) -> List[float]:
    begin = process_time()
    table.check()
    table.write(path, force=True)
    RankTable.read(path)
    return [process_time() - begin]


def _theirs(plain: Dict[str, Any], path: str) -> List[float]:
    begin = process_time()
    Path(path).write_text(json.dumps(plain, indent=1), encoding="utf-8")
    json.loads(Path(path).read_text(encoding="utf-8"))
    return [process_time() - begin]

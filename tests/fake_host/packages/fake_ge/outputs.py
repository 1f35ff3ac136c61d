"""What an offloaded run leaves: values, an executed graph, dump files, profiling data."""

import json
import os
import random
import time
from typing import Any, List, Sequence, Tuple

from fake_ge.entry import Entry
from fake_ge.faults import fault

__all__ = ["spoiled", "with_ge_op", "write"]

_WRONG_BY = 0.05
_NOISE = 0.001
_NAME = "GeOp1_0"

Operators = Sequence[Tuple[str, str]]

_PROFILES: List[str] = []


def spoiled(results: List[Any]) -> List[Any]:
    """The results, or what a faulty device would make of them."""
    factor = 1.0
    if fault("values") is not None:
        factor += _WRONG_BY
    if fault("noise") is not None:
        factor += _NOISE * random.uniform(0.5, 1.0)
    if factor == 1.0:
        return results
    return [(one * factor).astype(one.dtype) if _is_float(one) else one for one in results]


def _is_float(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") == "f"


def with_ge_op(data: bytes, operators: Operators) -> bytes:
    """A serialised RunMetadata in whose graphs the offloaded operators are one of type GeOp."""
    from tensorflow.core.protobuf import config_pb2

    metadata = config_pb2.RunMetadata.FromString(data)
    gone = {name for _, name in operators}
    if not metadata.partition_graphs:
        metadata.partition_graphs.add()
    for graph in metadata.partition_graphs:
        kept = [node for node in graph.node if node.name not in gone]
        del graph.node[:]
        graph.node.extend(kept)
    # om_partition_subgraphs_pass.cc: a node of type GeOp, whose name begins with it
    metadata.partition_graphs[0].node.add(name=_NAME, op="GeOp", device="/device:CPU:0")
    return bytes(metadata.SerializeToString())


def write(entry: Entry, operators: Operators, step: int, device: int) -> None:
    """Writes what the entry's dump and profiling options ask for.

    Args:
        entry: The options of the session.
        operators: Type and name of each offloaded operator.
        step: How often the session ran this before.
        device: The session's logical device.
    """
    chosen = entry.get("enable_dump") and _chosen(step, entry.get("dump_step"))
    if chosen and fault("no-dump") is None:
        _dump(entry, operators, step, device)
    if entry.get("profiling_mode") and fault("no-profile") is None:
        _profile(entry, device)


def _chosen(step: int, dump_step: Any) -> bool:
    # options_notes.md, a26 and g18; the seed about DumpConfig: "0|5|10-20"
    if not dump_step:
        return True
    for part in str(dump_step).split("|"):
        first, _, last = part.partition("-")
        if first.isdigit() and int(first) <= step <= int(last or first):
            return True
    return False


def _dump(entry: Entry, operators: Operators, step: int, device: int) -> None:
    stamp = time.strftime("%Y%m%d%H%M%S")
    # GE's layout: time, device, graph, model, step, then one file for each operator
    parts = (stamp, str(device), "ge_default_1", "1", str(step))
    folder = os.path.join(str(entry.get("dump_path")), *parts)
    os.makedirs(folder, exist_ok=True)
    for kind, name in operators:
        path = os.path.join(folder, f"{kind}.{name.replace('/', '_')}.1.0.{stamp}")
        with open(path, "wb") as file:
            file.write(b"\x08\x01")


def _profile(entry: Entry, device: int) -> None:
    given = json.loads(entry.get("profiling_options") or '{"output": "./"}')
    output = os.path.abspath(given.get("output") or os.environ.get("ASCEND_WORK_PATH") or ".")
    if output in _PROFILES:
        return
    _PROFILES.append(output)
    # options_notes.md, c: profiling_options, output
    stamp = time.strftime("%Y%m%d%H%M%S")
    name = f"PROF_000001_{stamp}_{os.getpid():08d}"
    folder = os.path.join(output, name, f"device_{device}", "data")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"training_trace.data.{device}.slice_0"), "wb") as file:
        file.write(b"\0")

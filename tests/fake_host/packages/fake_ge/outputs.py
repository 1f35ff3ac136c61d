"""What an offloaded run leaves besides values: an executed graph, dump files, profiling data, or an
error.
"""

import contextlib
import json
import os
import re
import time
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from fake_ge.entry import Entry, init_options
from fake_ge.environment import collection_path, profiling
from fake_ge.fatal import internal_error
from fake_ge.faults import fault
from fake_ge.messages import nested, said

__all__ = ["computed_on_the_device", "with_ge_op", "write"]

_NAME = "GeOp1_0"
_NODE = re.compile(r"{{node ([^}]*)}}")

Operators = Sequence[Tuple[str, str]]

# When each GE session began, by the options that are its own for as long as it lives.
_BEGUN: List[Tuple[Dict[str, Any], str]] = []
_PROFILES: List[str] = []


@contextlib.contextmanager
def computed_on_the_device(operators: Operators) -> Iterator[None]:
    """An error of one of these operators is what the adapter makes of it.

    Raises:
        InternalError: Of TensorFlow.
    """
    from tensorflow.python.framework import errors

    try:
        yield
    except (errors.CancelledError, errors.DeadlineExceededError, errors.OutOfRangeError):
        # geop_npu.cc, RunGraph: END_OF_SEQUENCE stays OutOfRange; the others are TensorFlow's own.
        raise
    except errors.OpError as error:
        names = set(_NODE.findall(str(error)))
        if not names & {name for _, name in operators}:
            raise
        # geop_npu.cc, RunGraph: whatever else GE answers is errors::Internal
        reason = nested("EZ9999", str(error).splitlines()[0])
        raise internal_error(said(f"{_NAME}GEOP::::DoRunAsync Failed", reason)) from None


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
    # om_partition_subgraphs_pass.cc, MarkForPartition: "GeOp", a number, "_", a number
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
    # guides/facts/dumps.md#data-dump: NPU_COLLECT_PATH suppresses it
    if chosen and collection_path() is None and fault("no-dump") is None:
        _dump(entry, operators, step, device)
    asked = profiling(init_options(entry))
    if asked is not None and fault("no-profile") is None:
        _profile(asked, device)


def _chosen(step: int, dump_step: Any) -> bool:
    # guides/facts/dumps.md#data-dump: unset is every iteration; 0|3-5|10
    if not dump_step:
        return True
    for part in str(dump_step).split("|"):
        first, _, last = part.partition("-")
        if first.isdigit() and int(first) <= step <= int(last or first):
            return True
    return False


def _dump(entry: Entry, operators: Operators, step: int, device: int) -> None:
    # Manual, "Dump" of online inference (CANN 5.0.4, onlineinfer_000010) and "NPU Data Dump" (Rec
    # SDK 7.3, mxrecug_0160): {dump_path}/{time}/{deviceid}/{model_name}/{model_id}/{data_index},
    # for example 20200808163719/0/ge_default_20200808163719_121/11/0. The time is when the GE
    # session made its settings (dump_properties.cc, InitByOptions); "data_index" is the step with
    # dump_step, else it counts from 0, which is the same here.
    begun = _begun(entry)
    parts = (begun, str(device), f"ge_default_{begun}_1", "1", str(step))
    folder = os.path.join(str(entry.get("dump_path")), *parts)
    os.makedirs(folder, exist_ok=True)
    for kind, name in operators:
        # Manual, "Dump File Naming Conventions" (MindStudio 6.0, msug_000167): {op_type}.{op_name}
        # .{task_id}.{stream_id}.{timestamp of 16 digits}; what is not of A-Za-z0-9_- becomes _
        plain = re.sub("[^A-Za-z0-9_-]", "_", name)
        path = os.path.join(folder, f"{kind}.{plain}.1.0.{time.time() * 1e6:016.0f}")
        # The content, a protobuf message of the toolkit, is not modelled.
        with open(path, "wb") as file:
            file.write(b"\x08\x01")


def _begun(entry: Entry) -> str:
    for options, begun in _BEGUN:
        if options is entry.said:
            return begun
    _BEGUN.append((entry.said, time.strftime("%Y%m%d%H%M%S")))
    return _BEGUN[-1][1]


def _profile(asked: str, device: int) -> None:
    # guides/facts/option_files.md#profiling_options: output or ASCEND_WORK_PATH; a relative
    # directory is one of the current directory
    given = json.loads(asked)
    output = os.path.abspath(given.get("output") or os.environ.get("ASCEND_WORK_PATH") or ".")
    if output in _PROFILES:
        return
    _PROFILES.append(output)
    # Manual, "Profile Data File Reference" (Ascend/msprof, profile_data_file_references.md):
    # PROF_XXX/device_{id}/data and PROF_XXX/host/data; that XXX is a number of six digits, a time
    # of 17 and 16 characters with the process id first is read off published names. The names of
    # the files below data are not documented: "raw profile data".
    now = time.time()
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now % 1 * 1000):03d}"
    name = f"PROF_000001_{stamp}_{os.getpid():08d}ABCDEFGH"
    for part in (f"device_{device}", "host"):
        os.makedirs(os.path.join(output, name, part, "data"), exist_ok=True)
    data = os.path.join(output, name, f"device_{device}", "data")
    with open(os.path.join(data, f"training_trace.data.{device}.slice_0"), "wb") as file:
        file.write(b"\0")

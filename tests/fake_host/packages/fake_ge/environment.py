"""What the adapter and GE read from the environment: the device, the task, collectives, profiling
and where failures are collected.

Source: GePlugin::Init in ge_plugin.cc, GetEnvDeviceID in npu_attrs.cc;
guides/facts/launch.md#collectives-that-are-switched-off.
"""

import json
import os
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional

from fake_ge import log
from fake_ge.fatal import DEVICE_ID, abort
from fake_ge.nodes import NodeError, logical_of

__all__ = [
    "Collectives",
    "collection_path",
    "collectives",
    "data_transfer_skipped",
    "own_device",
    "profiling",
    "task_type",
    "warn_without_device",
    "warn_without_job",
]

# ge_plugin.cc: kInvalidRankSize, kDefaultRankSize
_UNSET = -1
_ONE = 1

# guides/facts/dumps.md#profiling; npu_attrs.cc, profiling_default_options: "output" is the
# current directory
_PROFILING_DEFAULT = '{"output": "./"}'


class Collectives(NamedTuple):
    """Whether HCCL is used, and what is handed to it."""

    on: bool
    options: Dict[str, str]


def own_device() -> int:
    """This process's logical device; what is no device id ends the process."""
    # guides/facts/process.md#the-device-of-a-process
    for name in ("ASCEND_DEVICE_ID", "DEVICE_ID"):
        text = os.environ.get(name)
        if not text:
            continue
        number = _integer(text)
        # guides/facts/adapter.md#what-a-bad-option-does: no number, or a negative one
        if number is None:
            abort(f"{name} is invalid, should be int, such as 0, 1, 2.", DEVICE_ID, sleep=False)
        elif number < 0:
            abort(f"{name} should be >= 0.", DEVICE_ID, sleep=False)
        else:
            # npu_attrs.cc, GetEnvDeviceID: static_cast<uint32_t>
            number %= 2**32
            return number if name == "ASCEND_DEVICE_ID" else _translated(number)
    warn_without_device()
    return 0


def warn_without_device() -> None:
    """Say that no variable names this process's device; an empty one counts as none."""
    # guides/facts/process.md#the-device-of-a-process
    if not os.environ.get("ASCEND_DEVICE_ID") and not os.environ.get("DEVICE_ID"):
        log.warn(
            "[GePlugin] DEVICE_ID and ASCEND_DEVICE_ID is none, use default device id : 0, "
            "if set session_device_id, session_device_id has a higher priority.",
            "tf_adapter/util/npu_attrs.cc:164",
        )


def warn_without_job() -> None:
    """Say that JOB_ID is not set; an empty one counts as none."""
    # guides/facts/process.md#life-of-ge-in-a-process
    if not os.environ.get("JOB_ID"):
        log.warn(
            "[GePlugin] can not find Environment variable : JOB_ID",
            "tf_adapter/util/ge_plugin.cc:210",
        )


def task_type() -> Optional[str]:
    """The task's type in ``TF_CONFIG``; None if that is no JSON or has none."""
    # ge_plugin.cc, Init: text that json::parse refuses is a warning, and nothing is taken from it
    try:
        task = json.loads(os.environ.get("TF_CONFIG") or "null")["task"]["type"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(task)


def data_transfer_skipped() -> bool:
    """Whether ``ASCEND_TDT_UNINIT`` says so."""
    # ge_plugin.cc, Init: ReadBoolFromEnvVar, which takes 1 and true in any case;
    # guides/facts/process.md#a-failed-initialisation: ASCEND_TDT_UNINIT
    return os.environ.get("ASCEND_TDT_UNINIT", "").lower() in ("1", "true")


def collectives() -> Collectives:
    """What guides/facts/launch.md#collectives-that-are-switched-off says, line by line."""
    env = os.environ.get
    chief, table = env("CM_CHIEF_IP"), env("RANK_TABLE_FILE")
    workers, ranks = _size("CM_WORKER_SIZE"), _size("RANK_SIZE")
    found = Collectives(False, {})
    if chief and table:
        # "CM_CHIEF_IP and RANK_TABLE_FILE both set: ERROR log only; hcom off"
        pass
    elif chief:
        found = _of_chief(chief, _ONE if workers == _UNSET else workers, ranks)
    elif table:
        found = _of_table(table, workers, _ONE if ranks == _UNSET else ranks)
    # "HELP_CLUSTER set to anything forces hcom on"
    return found._replace(on=found.on or bool(env("HELP_CLUSTER")))


def profiling(options: Mapping[str, Any]) -> Optional[str]:
    """What is profiled, as the text of ``profiling_options``; None: nothing.

    Args:
        options: The init-scope options.
    """
    # guides/facts/dumps.md#profiling; GE's profiling_init.cc, InitFromOptions
    if options.get("profiling_mode"):
        return str(options.get("profiling_options") or _PROFILING_DEFAULT)
    if os.environ.get("PROFILING_MODE") != "true":
        return None
    return os.environ.get("PROFILING_OPTIONS") or _PROFILING_DEFAULT


def collection_path() -> Optional[str]:
    """The directory of ``NPU_COLLECT_PATH``; None if it is not set or cannot be used."""
    # Manual, "NPU_COLLECT_PATH" (CANN 8.0, envref_07_0129): the user can read, write and enter it;
    # "If the path does not exist, the system automatically creates the directory". The runtime's
    # own test (dump_config_converter_utest, TestNpuCollectPathEnableExceptionDump) has: one that
    # cannot be made turns nothing on.
    path = os.environ.get("NPU_COLLECT_PATH")
    if not path:
        return None
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return None
    return path if os.access(path, os.R_OK | os.W_OK | os.X_OK) else None


def _of_chief(chief: str, workers: int, ranks: int) -> Collectives:
    env = os.environ.get
    # "CM_* + RANK_SIZE, or CM_CHIEF_PORT / CM_CHIEF_DEVICE missing: ignored; hcom off"
    if not env("CM_CHIEF_PORT") or not env("CM_CHIEF_DEVICE") or workers <= 0 or ranks != _UNSET:
        return Collectives(False, {})
    names = ("CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_IP", "CM_WORKER_SIZE")
    # "CM_WORKER_SIZE unset in the CM flow: counted as 1; hcom on but not passed"
    given = {name.lower(): env(name, "") for name in names if env(name)}
    return Collectives(True, {"cm_chief_ip": chief, **given})


def _of_table(table: str, workers: int, ranks: int) -> Collectives:
    # "RANK_TABLE_FILE + CM_WORKER_SIZE: ignored"; "RANK_SIZE = 0 (or < -1): ignored"
    if workers != _UNSET or ranks <= 0:
        return Collectives(False, {})
    # "RANK_ID absent with a table: option simply not passed"
    given = {n.lower(): os.environ[n] for n in ("POD_NAME", "RANK_ID") if os.environ.get(n)}
    return Collectives(True, {"rank_table_file": table, **given})


def _size(name: str) -> int:
    # "unset, -1 or not a number: counted as unset"
    number = _integer(os.environ.get(name, ""))
    return _UNSET if number is None else number


def _integer(text: str) -> Optional[int]:
    # TensorFlow, core/lib/strings/numbers.cc, safe_strto64: spaces around, "-" but no "+", 64 bits
    number = int(text) if re.fullmatch(r"\s*-?[0-9]+\s*", text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _translated(physical: int) -> int:
    # guides/facts/process.md#the-device-of-a-process: DEVICE_ID is converted
    try:
        logical = logical_of(physical)
    except NodeError:
        logical = None
    if logical is None:
        # npu_attrs.cc, GetEnvDeviceID: IndexTransform fails
        abort("get logic device id by DEVICE_ID failed.", DEVICE_ID, sleep=False)
    assert logical is not None
    return logical

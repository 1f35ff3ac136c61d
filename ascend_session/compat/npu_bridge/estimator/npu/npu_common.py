"""``npu_bridge.estimator.npu.npu_common``: what a job's environment, or its start file, says.

Source: npu_common.py.
"""

import json
import os
from typing import Any, Optional

from ascend_session.compat.npu_bridge.estimator.npu import util
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import keep_arguments, mirror
from ascend_session.errors import JobError, warn

_HINT = "export JOB_ID=1 as the job's start script does, or start it with ascend-session launch."


class NoJobError(JobError, AttributeError):
    """JOB_ID is not set in a job of several ranks; the vendor's ends in an AttributeError, too."""


class JobInfo:
    """What is known of the job; each argument is kept behind an underscore."""

    __init__ = keep_arguments(
        "(job_id=0, job_config=None, heartbeat_time=-1, region_id=None, ak=None, sk=None, "
        "endpoint_url=None, device_info=None, rank_table_file=None, restart_flag=0, "
        "local_app_dir=None, local_data_dir=None, local_checkpoint_dir=None, local_log_dir=None, "
        "local_result_dir=None, local_boot_file=None, rank_size=1)"
    )


class JobConfig:
    """A learning rate and a size of batches."""

    __init__ = keep_arguments("(learning_rate=None, batch_size=None)")


class DeviceInfo:
    """This process's rank as text, and the rank that the others begin with."""

    def __init__(self, index: Any = "0", server_id: Any = "123456", dev_index: Any = 1) -> None:
        self._index = index
        self._server_id = server_id
        self._dev_index = dev_index
        self._root_rank = 0

    def is_master_node(self) -> bool:
        """Never True: as with the vendor's, a text is compared with a number."""
        return bool(self._index == self._root_rank)


class NPUBasics:
    """The job of this process, read once.

    Args:
        file_name: A start file (JSON); without one the environment is read.
    """

    _only: Optional["NPUBasics"] = None
    _job_info: Any
    _read = False

    def __new__(cls, file_name: str) -> "NPUBasics":
        """Return the only object of this process."""
        if NPUBasics._only is None:
            NPUBasics._only = object.__new__(cls)
        return NPUBasics._only

    def __init__(self, file_name: str) -> None:
        if not self._read:
            self._job_info = _read_job_info(file_name)
            self._read = True

    @property
    def jobinfo(self) -> Any:
        """The `JobInfo`; None without a file and without JOB_ID."""
        return self._job_info

    def size(self) -> int:
        """Return the number of ranks.

        Raises:
            JobError: In a job of several ranks without JOB_ID; it is an AttributeError, too.

        Warns:
            AscendConfigWarning: Without JOB_ID in a job of one.
        """
        return int(self._known_job("The number of ranks")._rank_size)

    def _known_job(self, subject: str) -> Any:
        """Return the `JobInfo`; in a job of one rank also without JOB_ID, unlike on a device.

        Args:
            subject: The subject of the message.

        Raises:
            JobError: In a job of several ranks without JOB_ID.

        Warns:
            AscendConfigWarning: Without JOB_ID in a job of one.
        """
        if self._job_info is not None:
            return self._job_info
        message = f"{subject} needs JOB_ID, which is not set"
        if util.get_ranksize() not in ("", "0", "1"):
            raise NoJobError(f"{message}.", hint=_HINT)
        warn(f"{message}; here a job of one rank is assumed. On a device this call fails: {_HINT}")
        return JobInfo(device_info=DeviceInfo(index=os.environ.get("RANK_ID", "")))


def _read_job_info(file_name: str) -> Any:
    try:
        with open(file_name, encoding="utf-8") as file:
            data = json.load(file)
    except OSError:
        return _from_environment()
    device = data.get("device_info")
    util.check_not_none(device, "device_info")
    index, table = device.get("Index"), data.get("rank_table_file")
    util.check_nonnegative_integer(index, "Index")
    util.check_not_none(table, "rank_table_file")
    size = data.get("rank_size")
    util.check_positive_integer(size, "rank_size")
    return JobInfo(
        device_info=DeviceInfo(index=str(index)),
        rank_table_file=table,
        local_checkpoint_dir=data.get("local_checkpoint_dir"),
        rank_size=size,
    )


def _from_environment() -> Any:
    environ = os.environ
    if not environ.get("JOB_ID"):
        tf.logging.error("JOB_ID is not set, and there is no job start file.")
        return None
    size = util.get_ranksize()
    return JobInfo(
        job_id=environ["JOB_ID"],
        heartbeat_time=environ.get("HEARTBEAT", ""),
        device_info=DeviceInfo(index=environ.get("POD_NAME") or environ.get("RANK_ID", "")),
        rank_table_file=environ.get("RANK_TABLE_FILE", ""),
        local_checkpoint_dir=environ.get("LOCAL_CHECKPOINT_DIR", ""),
        rank_size=int(size) if size.isdigit() else 1,
    )


__getattr__, __all__ = mirror(globals(), "os json logging util_lib")

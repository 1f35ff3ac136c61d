"""Two launchers side by side on this machine, as if it were two."""

import contextlib
import os
import queue
import signal
import threading
import zlib
from pathlib import Path
from typing import Any, Dict, List, Optional

from ascend_session.errors import AscendError
from ascend_session.launcher.api import launch
from ascend_session.launcher.events import Event, Planned
from ascend_session.launcher.job.events import Started
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.verdict.result import LaunchResult

__all__ = ["MEETING", "PATIENCE", "Node", "said"]

PATIENCE = 240.0  # seconds; four ranks that import TensorFlow on two cores take their time

# Ranks that meet, and tell each other their numbers.
MEETING = """
import fcntl, json, os
from ascend_session import vendor
vendor.CONNECT_SECONDS_MORE = 0  # what HCCL adds to HCCL_CONNECT_TIMEOUT, which no test waits for
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
ranks = hccl.allgather(tf.constant([int(os.environ["RANK_ID"])]), int(os.environ["RANK_SIZE"]))
with ascend_system() as system, system.session() as sess:
    if "HELD" in os.environ:
        with open(os.environ["HELD"]) as held:
            fcntl.flock(held, fcntl.LOCK_SH)  # until the test lets go of it
    print(json.dumps([system.rank, system.size, sess.run(ranks).tolist()]))
"""


class Node:
    """One node's launcher, in a thread of its own; ``ended`` is set when that ends."""

    def __init__(
        self,
        folder: Path,
        number: int,
        code: str,
        env: Any = None,
        ended: Optional[threading.Event] = None,
        **asked: Any,
    ) -> None:
        self._null = os.open(os.devnull, os.O_WRONLY)
        script = folder / f"node_{number}.py"
        script.write_text(code)
        what: Dict[str, Any] = {"script": str(script), "log_dir": str(folder / "logs")}
        what.update(nnodes=2, node_rank=number, processes=2, backend="stub", grace=30)
        what["job_id"] = f"job_{zlib.crc32(str(folder).encode())}"
        variables = {"TF_CPP_MIN_LOG_LEVEL": "2", **(env or {})}
        self._config = LaunchConfig(**{**what, "env": variables, **asked})
        self.notes: List[str] = []
        self.begun = threading.Event()
        self._pids: Any = queue.Queue()
        self._ended = ended or threading.Event()
        self._result: Optional[LaunchResult] = None
        self._refused: Optional[AscendError] = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def result(self) -> LaunchResult:
        """What became of it."""
        self._wait()
        assert self._refused is None, self._refused
        assert self._result is not None
        return self._result

    def refused(self) -> AscendError:
        """Why it was not started."""
        self._wait()
        assert self._refused is not None, self._result
        return self._refused

    def kill(self) -> None:
        """Kills the rank that it starts first, if it lives; the launcher ends the others then."""
        pid = self._pids.get(timeout=PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _wait(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the launcher has not ended"
        os.close(self._null)

    def _run(self) -> None:
        try:
            self._result = launch(self._config, output=self._null, on_event=self._note)
        except AscendError as refused:
            self._refused = refused
        finally:
            self.begun.set()
            self._ended.set()

    def _note(self, event: Event) -> None:
        if isinstance(event, Planned):
            self.notes += event.plan.notes
            self.begun.set()
        elif isinstance(event, Started):
            self._pids.put(event.pid)


def said(result: LaunchResult, stream: str = "stdout") -> List[str]:
    """What each rank of a node wrote, in order."""
    return [Path(getattr(rank, stream)).read_text() for rank in result.ranks]

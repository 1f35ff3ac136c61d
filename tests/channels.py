"""The launcher's end of the channel, for what a process of a test reports."""

from pathlib import Path
from typing import Any, Dict, List, Tuple

from ascend_session import channel
from ascend_session.launcher.job.reports import ReportReceiver, open_address
from ascend_session.rank_folder import CHANNEL, RANK_FOLDER

__all__ = ["Launcher"]


class Launcher:
    """A launcher to which the processes of a rank report; ``environ`` is for these."""

    def __init__(self, folder: Path) -> None:
        listener, address = open_address()
        self.receiver = ReportReceiver(listener.detach())
        self.environ = {CHANNEL: address, RANK_FOLDER: str(folder)}

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *failure: Any) -> None:
        self.receiver.close()
        channel._forget_in_child()  # whatever this process has connected

    def messages(self) -> List[Tuple[str, Dict[str, Any]]]:
        """The messages that have come since the last call: kind and values of each."""
        found = []
        for _, _, message in self.receiver.receive():
            found.append((message.pop("kind"), message))
        return found

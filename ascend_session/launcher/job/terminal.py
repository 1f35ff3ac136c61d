"""The launcher's terminal, while a rank uses it."""

import contextlib
import termios
from typing import Any, List

from ascend_session.launcher.job.signals import Signals
from ascend_session.process import is_in_front


class LentTerminal:
    """The terminal on standard input, which a rank uses within the block.

    The rank is in a session of its own, to which the terminal does not belong: so the kernel stops
    it for no read, and what is typed as a signal comes to the launcher. Settings that the rank
    leaves behind, such as no echo, are taken back when it has ended, or with the block.
    """

    def __enter__(self) -> "LentTerminal":
        self._settings = termios.tcgetattr(0)
        return self

    def __exit__(self, *failure: Any) -> None:
        self.take_back()

    def take_back(self) -> None:
        """Set the terminal as it was before a rank used it."""
        self._set(self._settings)

    def stop_process(self, signals: Signals) -> None:
        """Stop this process until it is continued in front; others find the old settings."""
        ranks_settings = termios.tcgetattr(0)
        self.take_back()
        signals.stop_process()
        while not is_in_front(0) and not signals.noted:  # as who reads in the background
            signals.stop_process()
        self._set(ranks_settings)

    @staticmethod
    def _set(settings: List[Any]) -> None:
        if is_in_front(0):  # else it is somebody else's by now
            with contextlib.suppress(termios.error):  # it has been closed
                termios.tcsetattr(0, termios.TCSANOW, settings)

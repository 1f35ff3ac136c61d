"""Presses Ctrl-C while our code imports TensorFlow, where Python loses the exception."""

import importlib.abc
import signal
import sys
from typing import Optional

from ascend_session import ascend_session
from tests.signals import signal_this_thread


class PressCtrlC:
    """Presses it in a finaliser, whose exceptions Python only prints."""

    def __del__(self) -> None:
        signal_this_thread(signal.SIGINT)


class AtNumpy(importlib.abc.MetaPathFinder):
    """Does so when TensorFlow imports numpy; and once more where nothing is lost."""

    def find_spec(self, name: str, *more: object) -> Optional[object]:
        if name == "numpy":
            PressCtrlC()
            if sys.argv[1] == "twice":
                signal_this_thread(signal.SIGINT)
        return None


signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, AtNumpy())
try:
    with ascend_session(backend="stub"):
        print("opened")
except KeyboardInterrupt:
    print(f"interrupted, TensorFlow imported: {'tensorflow.compat.v1' in sys.modules}")
print(f"handler given back: {signal.getsignal(signal.SIGINT) is signal.default_int_handler}")

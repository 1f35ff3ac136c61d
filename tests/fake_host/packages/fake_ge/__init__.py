"""A graph engine and a device that are not there, for the fake ``npu_bridge`` and ``hccl``.

Each behaviour names the line of the reference that says so; one without is a defect.
"""

import sys

from fake_ge import proxy
from fake_ge.engine import ENGINE
from fake_ge.faults import KNOWN, fault, host_root
from fake_ge.graphs import mark
from fake_ge.journal import calls, note, record
from fake_ge.nodes import release_all

__all__ = [
    "ENGINE",
    "KNOWN",
    "calls",
    "host_root",
    "load_library",
    "mark",
    "note",
    "record",
    "uninstall",
]

_PACKAGES = ("npu_bridge", "hccl", "fake_ge")


def load_library(path: str) -> str:
    """What ``tf.load_op_library`` does with the adapter's library: it gets into TensorFlow.

    Raises:
        NotFoundError: With the fault ``library``.
    """
    if fault("library") is not None:
        from tensorflow.python.framework import errors

        reason = "libge_runner.so: cannot open shared object file: No such file or directory"
        raise errors.NotFoundError(None, None, reason)
    proxy.install()
    return path


def uninstall() -> None:
    """Leaves TensorFlow, the exit handlers and ``sys.modules`` as if nothing had been imported."""
    import atexit

    plugin = sys.modules.get("npu_bridge.estimator.npu.npu_plugin")
    if plugin is not None:
        atexit.unregister(plugin.npu_close)
    patched = sys.modules.get("npu_bridge.npu_init")
    if patched is not None:
        patched.unpatch()
    proxy.uninstall()
    release_all()
    for name in [n for n in sys.modules if n.partition(".")[0] in _PACKAGES]:
        del sys.modules[name]

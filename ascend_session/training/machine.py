"""Which backend the graph is built for: the open system's, else the one that will be chosen."""

import os

from ascend_session.backends import choose
from ascend_session.hccl._backend import collectives
from ascend_session.session.registry import current_system

__all__ = ["on_npu"]


def on_npu() -> bool:
    """Whether it is the device; the vendor's packages are imported then.

    Raises:
        BackendError: If that backend cannot run here.
    """
    system = current_system()
    name = choose("auto", os.environ).name if system is None else system.backend
    if name != "npu":
        return False
    collectives()  # which checks that the vendor's packages can be imported, and does it
    return True

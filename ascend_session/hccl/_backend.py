"""Whose collectives are meant: the open system's, else those of the backend that will be chosen."""

import os
from typing import Dict

from ascend_session.backends import choose, create
from ascend_session.backends.collectives import Collectives
from ascend_session.session.registry import current_system

__all__ = ["collectives"]

_found: Dict[str, Collectives] = {}


def collectives() -> Collectives:
    """The collectives that an operator goes through which is built now.

    Building the graph before a system is open is the normal case; then it is the backend that
    ``ascend_system()`` chooses in this environment, made once for a process.

    Raises:
        BackendError: If that backend cannot run here.
    """
    system = current_system()
    if system is not None:
        return system.collectives
    choice = choose("auto", os.environ)
    if choice.name not in _found:
        _found[choice.name] = create(choice, os.environ).collectives
    return _found[choice.name]

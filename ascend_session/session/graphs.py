"""For which backend a graph is built: the open system's, else the one that will be chosen."""

import os
from typing import Dict

from ascend_session.backends import choose, create
from ascend_session.backends.base import Backend
from ascend_session.session.registry import current_system

_created: Dict[str, Backend] = {}


def graph_backend() -> Backend:
    """Return the backend whose operators go into a graph that is built now.

    Building the graph before a system is open is the normal case; then it is the backend that
    ``ascend_system()`` chooses in this environment, made once for a process.

    Raises:
        BackendError: If that backend cannot run here.
    """
    system = current_system()
    if system is not None:
        return system.graph_backend
    choice = choose("auto", os.environ)
    if choice.name not in _created:
        _created[choice.name] = create(choice, os.environ)
    return _created[choice.name]

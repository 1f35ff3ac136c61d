"""gRPC's Python package, imported when it is needed: that takes a tenth of a second."""

import importlib
import os
import sys
from typing import Any

__all__ = ["grpcio"]

_FORK = "GRPC_ENABLE_FORK_SUPPORT"


def grpcio() -> Any:
    """The module ``grpc``.

    It is imported without its handlers for ``fork``, which it reads from the environment then:
    a child that a rank forks to load data has no part in the meeting, and newer releases write a
    line to stderr at each fork.
    """
    if "grpc" in sys.modules or _FORK in os.environ:
        return importlib.import_module("grpc")
    os.environ[_FORK] = "0"
    try:
        return importlib.import_module("grpc")
    finally:
        del os.environ[_FORK]

"""Opens a system twice; the first argument is the environment, as JSON, the second the backend."""

import contextlib
import json
import os
import sys

import common  # noqa: F401  (which shows the log)

from ascend_session import InitializationError, ascend_system
from ascend_session.backends.stub import StubBackend

os.environ.update(json.loads(sys.argv[1]))


def have_no_peers(stub: StubBackend, *arguments: object) -> None:
    """The other ranks are not there."""
    raise OSError


if "RANK_ID" in os.environ:
    StubBackend.initialize = have_no_peers  # type: ignore[method-assign]
for _ in range(2):
    with contextlib.suppress(InitializationError), ascend_system(backend=sys.argv[2]):
        pass

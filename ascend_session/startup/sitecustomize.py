"""Start the witness in a Python below a launch, and load the next ``sitecustomize``.

When Python starts, it imports the first module of this name. Python may be of any version, and of
an environment without this package. The folder leaves ``sys.path``: the program sees Python's own.
"""

import os
import sys


def _load_next():  # type: ignore[no-untyped-def]
    """Import what Python would have found without this folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    this = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)


def _start_witness():  # type: ignore[no-untyped-def]
    """Run ``witness.py``, if there is anything to watch; a failure must not reach the program."""
    environ = os.environ
    is_rank = environ.get("ASCEND_SESSION_RANK_PID") == str(os.getpid())
    asks = ("LAUNCHED", "RUN", "SET", "RECORD")
    is_below = any(f"ASCEND_SESSION_{name}" in environ for name in asks)
    if sys.version_info < (3, 6) or not (is_rank or is_below):
        return
    try:
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        path = os.path.join(package, "witness.py")
        loader = sys.modules["_frozen_importlib_external"].SourceFileLoader("witness", path)
        scope = {"__name__": "witness", "__file__": path}
        exec(loader.get_code("witness"), scope)
        scope["start"]()  # type: ignore[operator]
    except Exception:
        return


if __name__ == "sitecustomize":
    try:
        _load_next()  # type: ignore[no-untyped-call]
    finally:
        _start_witness()  # type: ignore[no-untyped-call]

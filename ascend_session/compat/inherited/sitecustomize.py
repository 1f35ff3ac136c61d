"""Note that this Python is a rank that a script starts, and load the next ``sitecustomize``.

When Python starts, it imports the first module of this name. Python may be of any version.
"""

import os
import sys


def _load_next():  # type: ignore[no-untyped-def]
    """Import what Python would have found without this folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    own = [place for place in sys.path if os.path.abspath(place) == here]
    for place in own:
        sys.path.remove(place)
    this = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)
        sys.path[:0] = own


if "ASCEND_SESSION_LAUNCHED" in os.environ and sys.version_info >= (3, 6):
    try:
        _COMPAT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        _PATH = os.path.join(_COMPAT, "finder.py")
        _LOADER = sys.modules["_frozen_importlib_external"].SourceFileLoader("finder", _PATH)
        _SCOPE = {"__name__": "finder", "__file__": _PATH}
        exec(_LOADER.get_code("finder"), _SCOPE)
        _SCOPE["script_rank"]().note_start()  # type: ignore[operator]
    except Exception:  # the program runs without the note
        _SCOPE = {}
if __name__ == "sitecustomize":
    _load_next()  # type: ignore[no-untyped-call]

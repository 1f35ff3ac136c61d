"""``hccl`` for a Python that a script has started on a machine without a device."""

import os
import sys

_PATH = os.path.join(os.path.dirname(os.path.dirname(__file__)), "finder.py")
_LOADER = sys.modules["_frozen_importlib_external"].SourceFileLoader("finder", _PATH)
_SCOPE = {"__name__": "finder", "__file__": _PATH}
exec(_LOADER.get_code("finder"), _SCOPE)
_SCOPE["take_over"](__name__)  # type: ignore[operator]

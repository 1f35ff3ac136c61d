"""``npu_bridge`` for a Python that a script has started on a machine without a device."""

import os
import sys

_PATH = os.path.join(os.path.dirname(os.path.dirname(__file__)), "importing.py")
_LOADER = sys.modules["_frozen_importlib_external"].SourceFileLoader("importing", _PATH)
_SCOPE = {"__name__": "importing", "__file__": _PATH}
exec(_LOADER.get_code("importing"), _SCOPE)
_SCOPE["take_over"](__name__)  # type: ignore[operator]

"""``npu_bridge`` for a Python that a script has started on a machine without a device."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _take_over() -> None:
    """Has all of the vendor's names found in `ascend_session.compat`, this one first."""
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "importing.py")
    loader: Any = sys.modules["_frozen_importlib_external"]
    scope: Any = {"__name__": "importing", "__file__": path}
    exec(loader.SourceFileLoader("importing", path).get_code("importing"), scope)
    finder = scope["install"](asked={"child": "1"})
    spec = finder.find_spec("npu_bridge")
    module = sys.modules["npu_bridge"] = spec.loader.create_module(spec)
    spec.loader.exec_module(module)


_take_over()

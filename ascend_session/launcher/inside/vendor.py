"""Has the vendor's packages looked after, if the program asks for them: see `compat.importing`."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

__all__ = ["Vendor"]


class Vendor:
    """What stands for the vendor's packages, or their system's end, in this process.

    Args:
        pid: The process that runs the program.
        path: The file of `compat.importing`.
        asked: What `run` was asked, lines ``name=value``; None in a rank of a launch.
    """

    def __init__(self, pid: int, path: str, asked: "Optional[str]") -> None:
        self._pid = pid
        self._asked: Dict[str, str] = {}
        self._is_run = asked is not None
        for line in (asked or "").split("\n"):
            name, _, value = line.partition("=")
            if name:
                self._asked[name] = value
        external: Any = sys.modules["_frozen_importlib_external"]
        self._importing: Any = type(sys)("ascend_session.compat.importing")
        self._importing.__file__ = path
        code = external.SourceFileLoader(self._importing.__name__, path).get_code(
            self._importing.__name__
        )
        exec(code, vars(self._importing))
        self._finder: Any = None
        self._failed = False

    def begin(self) -> None:
        """Puts the finder in its place, before the program starts."""
        if self._asked.get("backend", "stub") != "stub":
            self._finder = self._importing.install("on_device", False, self._asked)
            return
        inherited = self._importing.INHERITED
        # For Pythons that the program starts: by the variable, multiprocessing's by the path.
        old = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = inherited + (os.pathsep + old if old else "")
        sys.path.insert(0, inherited)
        self._finder = self._importing.install("watching", True, self._asked)
        if self._is_run:
            import atexit

            atexit.register(self._say_if_unused)

    def fail(self, error: BaseException) -> None:
        """Says to whom it concerns that the program fails; never raises."""
        if self._finder is None or os.getpid() != self._pid:
            return
        kinds = AttributeError, ImportError, RuntimeError, ValueError
        self._failed = True
        try:
            if self._finder.started:
                self._importing.ending().failed(error)
            elif isinstance(error, kinds) and "tensorflow" in sys.modules:
                self._importing.ending().begin(self._asked)
                self._importing.ending().failed(error)
        except Exception as second:
            _say(f"{type(second).__name__}: {second}")

    def _say_if_unused(self) -> None:
        is_late = self._finder.started or self._failed
        if not is_late and os.getpid() == self._pid:
            _say(
                "this process has imported neither npu_bridge nor hccl; all that it computes is "
                "left on the host, on a device, too."
            )


def _say(text: str) -> None:
    if sys.stderr is not None:
        try:
            sys.stderr.write(f"ascend-session: {text}\n")
        except (OSError, ValueError):
            return

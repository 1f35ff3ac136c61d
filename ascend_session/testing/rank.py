"""What a rank of a test does: it runs a function and leaves what that returned or raised.

``python -m ascend_session.testing.rank`` is what `ranks.run_ranks` starts.
"""

import importlib
import importlib.util
import multiprocessing.spawn
import os
import pickle
import sys
import threading
import time
import traceback
from typing import Tuple

from ascend_session.process import find_frames

FOLDER = "ASCEND_SESSION_TESTING_FOLDER"
"""Variable with the folder in which a rank finds its work and leaves its result."""

DEADLINE = "ASCEND_SESSION_TESTING_DEADLINE"
"""Variable with the time at which a rank exits, in seconds of `time.monotonic`."""

CALL = "call.pickle"
TIMEOUT_CODE = 124  # as timeout(1) exits
_MOST_FRAMES = 12
_OTHERS_S = 1.0  # in which the others write theirs: they are stopped when one rank exits


def enter_rank() -> Tuple[str, int]:
    """Return the folder and the number of this rank, and make it exit at the deadline."""
    remaining_s = float(os.environ[DEADLINE]) - time.monotonic()
    stderr = os.dup(2)  # pytest takes the standard streams
    timer = threading.Timer(max(remaining_s, 0.0), _expire, [stderr])
    timer.daemon = True
    timer.start()
    return os.environ[FOLDER], int(os.environ["RANK_ID"])


def _expire(stderr: int) -> None:
    main = find_frames().get(threading.main_thread().ident or 0)
    frames = list(traceback.extract_stack(main)) if main else []
    calls = [number for number, frame in enumerate(frames) if frame.filename == __file__]
    frame_lines = traceback.format_list(frames[calls[-1] + 1 if calls else 0 :][-_MOST_FRAMES:])
    text = f"Stack (most recent call last):\n{''.join(frame_lines)}"
    os.write(stderr, text.encode(errors="replace"))
    time.sleep(_OTHERS_S)
    os._exit(TIMEOUT_CODE)


def name_result(folder: str, rank: int) -> str:
    """Return the path of the file with what a rank returned or raised."""
    return os.path.join(folder, f"result_{rank}.pickle")


def import_module(name: str, path: str) -> None:
    """Import a module by its name, or from its file where the name leads elsewhere.

    pytest may import a test module whose folder is not on ``sys.path``.
    """
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if not path or (spec and spec.origin and os.path.samefile(spec.origin, path)):
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _main() -> None:
    folder, rank = enter_rank()
    with open(os.path.join(folder, CALL), "rb") as file:
        preparation, module, call = pickle.load(file)
    multiprocessing.spawn.prepare(preparation)
    try:
        if module[0] not in ("__main__", "__mp_main__"):  # which `prepare` has imported
            import_module(*module)
        function, args, kwargs = pickle.loads(call)
        result = pickle.dumps((True, function(*args, **kwargs), ""))
    except Exception as error:
        text = traceback.format_exc()
        try:
            result = pickle.dumps((False, error, text))
            pickle.loads(result)
        except Exception:  # it cannot be pickled; pickle raises whatever the class does
            result = pickle.dumps((False, None, text))
        _write(name_result(folder, rank), result)
        raise
    _write(name_result(folder, rank), result)


def _write(path: str, result: bytes) -> None:
    from ascend_session.files import replace_file

    replace_file(path, result)


if __name__ == "__main__":
    # What is pickled in a module of this name is found by those that import it.
    from ascend_session.testing import rank

    rank._main()

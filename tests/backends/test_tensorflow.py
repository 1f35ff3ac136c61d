"""TensorFlow, late and under one name."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict

import pytest

from ascend_session.backends._tensorflow import destroy, graph_or_default, tf1
from ascend_session.errors import BackendError
from ascend_session.requirements import tensorflow_hint


def test_it_is_the_interface_that_all_releases_share(tf: Any) -> None:
    assert tf1() is tf


def test_the_default_graph_is_the_users(tf: Any) -> None:
    with tf.Graph().as_default() as graph:
        assert graph_or_default(None) is graph
    assert graph_or_default(None) is not graph


def test_a_machine_without_tensorflow_is_told_what_to_install(
    tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow.compat.v1", None)
    with pytest.raises(BackendError, match="TensorFlow cannot be imported") as refused:
        tf1()
    assert refused.value.hint == tensorflow_hint()
    assert isinstance(refused.value.__cause__, ImportError)


def test_one_that_is_installed_but_broken_is_told_what_mends_it(tmp_path: Path) -> None:
    package = tmp_path / "tensorflow"
    package.mkdir()
    said = "Descriptors cannot not be created directly.\\nIf this call came from a _pb2.py file"
    (package / "__init__.py").write_text(f"raise TypeError('{said}')\n")
    top = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", "from ascend_session.backends._tensorflow import tf1; tf1()"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), top])},
        capture_output=True,
        text=True,
    )
    assert ended.stderr.splitlines()[-2:] == [
        "ascend_session.errors.BackendError: TensorFlow cannot be imported: TypeError: Descriptors "
        "cannot not be created directly. If this call came from a _pb2.py file.",
        "  hint: TensorFlow needs an older protobuf: pip install 'protobuf<3.21'",
    ]


def test_ctrl_c_while_it_is_imported_is_raised_once_it_is_imported() -> None:
    ended = _press_ctrl_c_in_the_import("once")
    lines = ["interrupted, TensorFlow imported: True", "handler given back: True"]
    assert (ended.returncode, ended.stdout.splitlines()) == (0, lines), ended.stderr


def test_a_second_ctrl_c_while_it_is_imported_ends_the_script_at_once() -> None:
    ended = _press_ctrl_c_in_the_import("twice")
    assert (ended.returncode, ended.stdout) == (-signal.SIGINT, ""), ended.stderr
    assert "Second signal (SIGINT): exiting at once." in ended.stderr.splitlines()


def _press_ctrl_c_in_the_import(presses: str) -> "subprocess.CompletedProcess[str]":
    program = Path(__file__).parents[1] / "programs" / "importing.py"
    return subprocess.run(
        [sys.executable, str(program), presses],
        env={**os.environ, "PYTHONPATH": str(program.parents[2])},
        capture_output=True,
        text=True,
    )


class TestDestroying:
    def test_what_a_session_holds_is_freed_while_it_is_still_referred_to(self, tf: Any) -> None:
        session = tf.Session()
        destroy(session)
        assert session._session is None
        with pytest.raises(RuntimeError, match="closed"):
            session.run(tf.no_op())

    @pytest.mark.parametrize("through", ["session", "callable"])
    def test_one_in_which_another_thread_runs_is_only_closed(self, tf: Any, through: str) -> None:
        session = tf.Session()
        running = session if through == "session" else SimpleNamespace(_session=session)
        begun, go_on = threading.Event(), threading.Event()
        thread = threading.Thread(target=run_of_tensorflow(), args=(running, begun, go_on))
        thread.start()
        assert begun.wait(60)
        destroy(session)
        go_on.set()
        thread.join(60)
        assert session._closed
        assert session._session is not None
        destroy(session)
        assert session._session is None


def run_of_tensorflow() -> Any:
    """A function whose frame looks like that of a run: TensorFlow 2 waits for real ones."""
    scope: Dict[str, Any] = {}
    text = "def run(self, begun, go_on):\n    begun.set()\n    go_on.wait(60)\n"
    exec(compile(text, "tensorflow/python/client/session.py", "exec"), scope)
    return scope["run"]

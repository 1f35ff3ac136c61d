"""What every test finds, and the police: a test that leaves something behind fails."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Union

import psutil
import pytest

from ascend_session.testing.ranks import find_job_variables
from hardware_tests.graph_mode import tensorflow_in_graph_mode
from hardware_tests.running import stop_ignoring_signals
from tests.running import Host
from tests.time_limit import limit_time
from variables import own_environment

pytest.register_assert_rewrite(
    "hardware_tests.backend_contract", "hardware_tests.collective_contract"
)

stop_ignoring_signals()


def pytest_configure(config: Any) -> None:
    """Leave what tests start no other variables, whatever machine or pytest-xdist have set."""
    foreign = set(os.environ) - set(own_environment(os.environ))
    if config.pluginmanager.hasplugin("ascend_session_rank"):
        foreign -= set(find_job_variables(os.environ))  # those of its job
    for name in foreign:
        del os.environ[name]


def pytest_sessionstart(session: Any) -> None:
    """Ends the run when a test hangs."""
    limit_time(session.config, 600.0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: Any) -> int:
    """Two workers for each CPU, for much of a test is waiting.

    There are none for a single file, and none where a test has the terminal.
    """
    folders = all(Path(config.invocation_params.dir, each).is_dir() for each in config.args)
    if not folders or config.option.capture == "no" or config.option.trace:
        return 0
    return min(2 * len(os.sched_getaffinity(0)), 8)


@pytest.fixture(autouse=True)
def environment_left_as_found(request: Any) -> Iterator[None]:
    """The environment has no variable that is read, and the test must not change it."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.pluginmanager.hasplugin("ascend_session_rank"):
            for name in find_job_variables(os.environ):
                patch.delenv(name)
        before = _variables()
        yield
        # What is new and not read is from libraries, which set variables when they are imported.
        after = {**find_job_variables(os.environ), **{n: os.environ.get(n) for n in before}}
        assert after == before, "the test changed os.environ"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No open system, child process, non-daemon thread, signal handler or wakeup descriptor."""
    threads, children, signals = _threads(), _children(), _signals()
    yield
    left: List[str] = []
    left += [f"a system: {events}" for events in _shut_open_systems()]
    left += [f"a thread: {thread!r}" for thread in _threads() if thread not in threads]
    for pid in _children() - children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child = psutil.Process(pid)
            if not _is_fork_that_ends(child):
                left.append(f"a child process: {child!r}")
                child.kill()
                child.wait()
    left += [f"{name}: {now!r}" for name, now in _signals().items() if now != signals[name]]
    _restore(signals)
    _forget_leftovers()
    assert not left, "the test left behind " + ", ".join(left)


@pytest.fixture(scope="session")
def _tensorflow() -> Any:
    return tensorflow_in_graph_mode()


@pytest.fixture
def tf(_tensorflow: Any) -> Iterator[Any]:
    """TensorFlow in graph mode, with an empty default graph of the test's own."""
    with _tensorflow.Graph().as_default():
        yield _tensorflow
        left = []
        while _tensorflow.get_default_session() is not None:
            left.append(_tensorflow.get_default_session())
            left[-1].__exit__(None, None, None)
        assert not left, f"the test left default sessions: {left}"


@pytest.fixture
def ge(tf: Any, tmp_path: Path) -> Iterator[Any]:
    """The vendor's packages on a host with one device, which `auto` chooses, in this process."""
    from tests.fake_host.vendor import loaded_on

    with loaded_on(tmp_path, chips=1) as ge:
        yield ge


@pytest.fixture(scope="session")
def programs() -> Iterator[Host]:
    """Runs the programs of tests/programs."""
    host = Host()
    yield host
    host.close()


@pytest.fixture(scope="session")
def forking_python(tmp_path_factory: Any) -> Iterator[str]:
    """What a launch takes for its ranks' Python, and has TensorFlow imported already."""
    tests = Path(__file__).resolve().parent
    variables = {"GRPC_ENABLE_FORK_SUPPORT": "0", "TF_CPP_MIN_LOG_LEVEL": "2"}
    with subprocess.Popen(
        [sys.executable, str(tests / "programs/nursery.py"), str(tmp_path_factory.mktemp("fork"))],
        env={**os.environ, **variables, "PYTHONPATH": str(tests.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    ) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        yield nursery.stdout.readline().strip()
        nursery.stdin.close()


def _is_fork_that_ends(child: psutil.Process) -> bool:
    """Whether it is what `forking_python` has made, and sees now that nobody needs it."""
    try:
        words = child.cmdline()  # none if it is about to be gone
        if words and not any(word.endswith("nursery.py") for word in words):
            return False
        child.wait(10)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def _variables() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _threads() -> List[threading.Thread]:
    return [thread for thread in threading.enumerate() if not thread.daemon]


def _children(pid: Union[int, str] = "self") -> Set[int]:
    """Return the ids of all processes below one; psutil would look at every one of the machine."""
    below: Set[int] = set()
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):  # or only the thread has
                children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
                below.update(map(int, children.split()))
    return below.union(*map(_children, below))


def _signals() -> Dict[str, Any]:
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    handlers = {n.name: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    return {**handlers, "the wakeup descriptor": wakeup}


def _restore(signals: Dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signals["SIGINT"])
    signal.signal(signal.SIGTERM, signals["SIGTERM"])
    signal.set_wakeup_fd(signals["the wakeup descriptor"])


def _shut_open_systems() -> List[str]:
    """Shuts down what is still open, so that the next test is not hurt; says what it was."""
    session = sys.modules.get("ascend_session.session.system")
    system = session.current_system() if session else None
    if system is None:
        return []
    system.close()
    return [", ".join(event.name for event in system.events)]


def _forget_leftovers() -> None:
    """What an earlier test's system left behind in the adapter is no concern of the next one.

    Nor is a backend that its graphs were built for.
    """
    options: Any = sys.modules.get("ascend_session.session.options")
    if options is not None:
        options.LEFTOVERS = type(options.LEFTOVERS)()
    graphs: Any = sys.modules.get("ascend_session.session.graphs")
    if graphs is not None:
        graphs._created.clear()

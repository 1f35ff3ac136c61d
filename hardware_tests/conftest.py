"""What every test on a device finds: needs that are looked at first, and a line that sums up."""

import os
import sys
from pathlib import Path
from typing import Any, Generator, Iterator, List, Optional

import pytest

from ascend_session import current_system, devices
from hardware_tests import limits
from hardware_tests.first_try import why_it_ends
from hardware_tests.graph_mode import tensorflow_in_graph_mode
from hardware_tests.needs import MARKER, missing_for, needs_packages
from hardware_tests.running import GE_FINALIZE_FAILED, LEFTOVER, stop_ignoring_signals
from hardware_tests.summary import Tally

pytest.register_assert_rewrite(
    "hardware_tests.backend_contract", "hardware_tests.collective_contract"
)

stop_ignoring_signals()

_HERE = Path(__file__).resolve().parent
_TALLY = pytest.StashKey[Tally]()
_FOLDER = pytest.StashKey[Path]()
# TensorFlow and the vendor's packages warn of what is none of this project's business.
_WARNINGS = pytest.mark.filterwarnings("ignore", "error::ascend_session.errors.AscendConfigWarning")


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--require-npu",
        action="store_true",
        help="a test of hardware_tests that cannot run here has failed, instead of being skipped",
    )
    parser.addoption(
        "--hardware-json",
        metavar="FILE",
        help="write the page that a run of hardware_tests ends with as JSON, too",
    )


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", MARKER)
    config.stash[_TALLY] = Tally(config.getoption("--require-npu"))


def pytest_collection_modifyitems(items: List[Any]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(_WARNINGS, append=False)


def pytest_collection_finish(session: Any) -> None:
    own = [item for item in session.items if _HERE in item.path.parents]
    tally = _tally(session.config)
    if tally is not None:
        tally.chosen = len(own)


# For the tests of this folder only.
def pytest_runtest_setup(item: Any) -> None:
    missing = missing_for(item)
    if missing:
        pytest.skip(missing)
    _enter_folder(item.config)
    ends = why_it_ends() if needs_packages(item) else None
    if ends:
        pytest.fail(ends, pytrace=False)


def _enter_folder(config: Any) -> None:
    """Work in a folder of the run: the adapter writes files into the working directory.

    Source: guides/facts/process.md#the-end-of-a-process
    """
    if _FOLDER not in config.stash:
        config.stash[_FOLDER] = config._tmp_path_factory.mktemp("run")
        os.chdir(str(config.stash[_FOLDER]))


def pytest_sessionfinish(session: Any) -> None:
    os.chdir(str(session.config.invocation_params.dir))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any) -> Generator[None, Any, None]:
    outcome = yield
    tally = _tally(item.config)
    if tally is not None:
        tally.add(outcome.get_result())


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    tally = _tally(config)
    if tally is None or config.option.collectonly:
        return
    page = tally.make_page(str(config.stash.get(_FOLDER, "")))
    if page.steps:
        terminalreporter.write_sep("=", "page about this run")
        terminalreporter.write_line(page.as_text())
    if config.option.hardware_json:
        page.write_json(config.option.hardware_json)
    terminalreporter.write_line(tally.line())


def _tally(config: Any) -> Optional[Tally]:
    """The run's; None if this folder was come upon only while tests were collected elsewhere."""
    return config.stash.get(_TALLY, None)


@pytest.fixture(scope="session", autouse=True)
def environment_without_leftovers() -> Iterator[None]:
    """Variables of a job, and those that change what is written, are not for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if LEFTOVER.fullmatch(name)]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def report() -> Any:
    """What this machine says of its devices."""
    return devices(timeout=limits.ANSWER)


@pytest.fixture(scope="session")
def _tensorflow() -> Any:
    return tensorflow_in_graph_mode()


@pytest.fixture
def tf(_tensorflow: Any) -> Iterator[Any]:
    """TensorFlow in graph mode, with an empty default graph of the test's own."""
    with _tensorflow.Graph().as_default():
        yield _tensorflow


@pytest.fixture(autouse=True)
def the_device_is_finalised(capfd: Any) -> Iterator[None]:
    """The adapter only logs that GE could not be finalised (ge_plugin.cc, GeFinalize)."""
    yield
    output, log = capfd.readouterr()
    sys.stdout.write(output)
    sys.stderr.write(log)
    lines = [line for line in log.splitlines() if GE_FINALIZE_FAILED in line]
    assert lines == [], "the device was not finalised"


@pytest.fixture(autouse=True)
def no_system_left_open() -> Iterator[None]:
    """A system that a test leaves open would be shared by the tests after it."""
    yield
    assert current_system() is None, "the test left a system open"

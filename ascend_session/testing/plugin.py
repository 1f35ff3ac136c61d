"""The pytest plugin: the mark ``ranks`` and the fixture ``ascend_stub``.

pytest loads it in every project of an environment with this package, so it imports only pytest
and this package, whose names are loaded when they are used.
"""

import functools
import os
import sys
from typing import Any, Iterator, List

import pytest

import ascend_session

_MARK = "ranks(size, timeout=300): run the test as so many ranks of a job on the stub, each of \
which is a process of its own (ascend_session)"


def pytest_configure(config: pytest.Config) -> None:
    """Describe the mark."""
    config.addinivalue_line("markers", _MARK)


def pytest_collection_modifyitems(config: pytest.Config, items: List[Any]) -> None:
    """Have tests with the mark ``ranks`` run in ranks, unless this is one of them.

    Methods of ``unittest.TestCase``, too, of which pytest calls no function itself.
    """
    if config.pluginmanager.hasplugin("ascend_session_rank"):
        return
    for item in items:
        mark = item.get_closest_marker("ranks")
        if mark is not None and isinstance(item, pytest.Function):
            from ascend_session.testing.pytest_job import run_item

            item.runtest = functools.partial(run_item, item, mark)  # type: ignore[method-assign]


@pytest.fixture
def ascend_stub(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test on the stub, whatever variables and devices there are.

    Variables that make this process a rank, choose its backend or set options are unset during the
    test. A test that leaves a system open fails, and the system is closed. In a test with the mark
    ``ranks`` each rank keeps the variables of its own job.
    """
    is_rank = request.config.pluginmanager.hasplugin("ascend_session_rank")
    with pytest.MonkeyPatch.context() as patch:
        if not is_rank:
            from ascend_session.testing.ranks import find_job_variables

            for name in find_job_variables(os.environ):
                patch.delenv(name)
            patch.setenv("ASCEND_SESSION_BACKEND", "stub")
        yield
        if "ascend_session.session.system" not in sys.modules:
            return  # the test has opened nothing
        system: Any = ascend_session.current_system()
        if system is not None:
            system.close()
            pytest.fail(
                "The test left a system open; leave its with block, or call close().",
                pytrace=False,
            )

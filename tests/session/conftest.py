"""Ways to get at what the session room does."""

from typing import Any, Callable, Iterator

import pytest

from ascend_session import ascend_system


@pytest.fixture
def stub(tf: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Puts another stub in the place of the real one."""

    def put(backend_class: Any) -> Any:
        monkeypatch.setattr("ascend_session.backends.stub.StubBackend", backend_class)
        return backend_class

    return put


@pytest.fixture
def system(tf: Any) -> Iterator[Any]:
    """An open system with default options."""
    with ascend_system(backend="stub") as system:
        yield system

"""What several tests of fan_out need."""

from typing import Any, Callable, List

import pytest

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.stub import StubBackend


class Recording:
    """A stub that notes what happens to its sessions, ``what id``, and can fail on one device."""

    def __init__(self) -> None:
        self.said: List[str] = []
        self.fail_to_open = self.fail_to_run = -1
        self.at_close: Callable[[int], None] = lambda device: None

    def backend(self) -> Any:
        """The class of the stub."""
        record = self

        class Stub(StubBackend):
            def session(self, graph: Any, proto: Any) -> Any:
                return record.session(graph, proto)

        return Stub

    def session(self, graph: Any, proto: Any) -> Any:
        """A real session that notes its runs and its end."""
        record, tf = self, tf1()
        device = device_of(proto)
        if device == self.fail_to_open:
            raise MemoryError("no memory left")

        class Session(tf.Session):  # type: ignore[misc]
            def run(self, fetches: Any, *more: Any, **options: Any) -> Any:
                record.said.append(f"run {getattr(fetches, 'type', fetches)} {device}")
                if device == record.fail_to_run:
                    raise tf.errors.InternalError(None, None, "the device is on fire")
                return super().run(fetches, *more, **options)

            def close(self) -> None:
                again = self._closed  # TensorFlow 2 closes once more when it collects garbage
                super().close()
                if not again:
                    record.said.append(f"close {device}")
                    record.at_close(device)

        self.said.append(f"open {device}")
        return Session(graph=graph, config=proto)


def device_of(proto: Any) -> int:
    """The ``session_device_id`` in a ConfigProto."""
    (entry,) = proto.graph_options.rewrite_options.custom_optimizers
    return int(entry.parameter_map["session_device_id"].i)


@pytest.fixture
def recording(tf: Any, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Puts a recording stub in the place of the real one."""
    record = Recording()
    monkeypatch.setattr("ascend_session.backends.stub.StubBackend", record.backend())
    return record


@pytest.fixture
def build(tf: Any) -> Callable[[int], Any]:
    """Builds a constant whose value is ten times the device id."""
    return lambda device_id: tf.constant(10 * device_id, name="answer")

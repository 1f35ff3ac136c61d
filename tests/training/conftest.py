"""A job of several ranks in one process, of which all but this one do what this one does."""

from typing import Any, Iterator, List, NamedTuple

import pytest

from ascend_session.backends._tensorflow import mark_operators
from ascend_session.backends.base import Backend
from ascend_session.backends.stub import StubBackend
from ascend_session.session import graphs
from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, live_host, loaded


def _operator(kind: str, result: Any) -> Any:
    """The result behind an operator like the stub's, by which graphs are read."""
    import tensorflow.compat.v1 as tf

    with mark_operators(tf.get_default_graph()):
        return tf.identity_n([result], name=kind)[0]


class Call(NamedTuple):
    """A collective that was put into the graph."""

    name: str
    dtypes: List[str]
    fusion: int
    fusion_id: int


class Equals:
    """Operators and groups of ranks that all have the same tensors as this one; records the calls.

    Args:
        size: The number of ranks.
    """

    def __init__(self, size: int) -> None:
        self.calls: List[Call] = []
        self._size = size

    def _record(self, name: str, tensors: Any, fusion: int, fusion_id: int) -> None:
        dtypes = [tensor.dtype.base_dtype.name for tensor in tensors]
        self.calls.append(Call(name, dtypes, fusion, fusion_id))

    def allreduce(
        self, tensor: Any, reduction: str, fusion: int, fusion_id: int, group: str
    ) -> Any:
        """The tensor as often as there are ranks."""
        assert reduction == "sum"
        self._record("allreduce", [tensor], fusion, fusion_id)
        return _operator("HcomAllReduce", tensor * self._size)

    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        """The tensor behind itself."""
        import tensorflow.compat.v1 as tf

        self._record("allgather", [tensor], fusion, fusion_id)
        return _operator("HcomAllGather", tf.concat([tensor] * rank_size, 0))

    def broadcast(
        self, tensors: Any, root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """The tensors."""
        self._record("broadcast", tensors, fusion, fusion_id)
        return list(tensors)

    def size(self, group: str) -> int:
        """The number of ranks."""
        return self._size


@pytest.fixture
def two(monkeypatch: Any) -> Equals:
    """A job of two ranks."""
    return equals(monkeypatch, 2)


def equals(monkeypatch: Any, size: int) -> Equals:
    """A job of so many ranks, until the test ends."""
    ranks = Equals(size)
    install(monkeypatch, ranks, size)
    return ranks


def install(monkeypatch: Any, ranks: Any, size: int) -> None:
    """Put operators and groups of so many ranks in the place of the stub's, until the test ends."""
    monkeypatch.setattr(StubBackend, "operators", ranks)
    monkeypatch.setattr(StubBackend, "groups", ranks)
    monkeypatch.setattr(StubBackend, "allreduce_many", Backend.allreduce_many)
    monkeypatch.setenv("RANK_SIZE", str(size))
    monkeypatch.setitem(graphs._created, "stub", StubBackend({}))


@pytest.fixture
def host(tmp_path: Any) -> Iterator[FakeHost]:
    """A host with two devices and the vendor's packages."""
    host = live_host(tmp_path, chips=2)
    yield host
    host.close()


@pytest.fixture
def ge(tf: Any, host: FakeHost) -> Iterator[Loaded]:
    """The graph engine behind the vendor's packages, in this process."""
    with loaded(host) as ge:
        yield ge

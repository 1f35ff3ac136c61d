"""TensorFlow, late and under one name."""

import sys
from typing import Any

import pytest

from ascend_session.backends._tensorflow import graph_or_default, tf1
from ascend_session.errors import BackendError


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
    assert "ascend_session[tensorflow]" in str(refused.value.hint)
    assert isinstance(refused.value.__cause__, ImportError)

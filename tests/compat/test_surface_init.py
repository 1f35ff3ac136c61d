"""What scripts do with the functions of npu_init, in a process of its own: it changes sessions."""

import json
from typing import Any

import pytest

from tests.running import Host


@pytest.fixture(scope="module")
def found(programs: Host) -> Any:
    """What such a script has found."""
    ended = programs.run("compat_init")
    assert ended.code == 0, ended.log
    return json.loads(ended.lines[-1])


def test_the_vendors_name_means_the_module_of_ours(found: Any) -> None:
    assert found["same module"]
    assert found["mirrored"]
    assert found["tf"]


def test_ranks_are_known_once_the_resource_is_initialised(found: Any) -> None:
    assert "init_resource" in found["too early"]
    assert found["ranks"] == [0, 0, 1, 1]
    assert found["initialised"] == ["NpuOptimizer"]
    assert found["sum"] == 2


def test_after_its_shutdown_the_session_cannot_run(found: Any) -> None:
    assert found["after shutdown"] == "LifecycleError"  # InternalError on a device


def test_every_session_and_every_proto_gets_an_entry(found: Any) -> None:
    assert found["plain"] == found["interactive"] == ["NpuOptimizer"]
    assert found["changed"] == 1
    assert found["proto"] == [1, False, True, True, -1, -1]
    assert found.get("run config", 1) == 1


def test_hooks_callbacks_and_optimizers_are_the_vendors(found: Any) -> None:
    assert found["hooks"] == ["NPUBroadcastGlobalVariablesHook"]
    assert found["more hooks"] == 2
    assert found["callbacks"] == ["NPUBroadcastGlobalVariablesCallback"]
    assert found["optimizer"] == "NPUDistributedOptimizer"
    assert found["options"] == 1


def test_keras_gets_a_session_with_an_entry(found: Any) -> None:
    assert found["keras"] == ["NpuOptimizer"]
    assert found["is Keras's"]
    assert found["another"] == ["NpuOptimizer"]

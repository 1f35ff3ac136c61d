"""Which backend runs, and why; a host with devices is a folder with files."""

from pathlib import Path
from typing import Any, Dict

import pytest

from ascend_session.backends import Choice, backend_class, choose, create
from ascend_session.errors import BackendError
from tests.fake_host import FakeHost

StubBackend: Any = backend_class("stub")


@pytest.fixture
def host(tmp_path: Path) -> Dict[str, str]:
    """The environment of a host with the devices 3 and 12."""
    (tmp_path / "dev").mkdir()
    for name in ("davinci12", "davinci3", "davinci_manager", "null"):
        (tmp_path / "dev" / name).touch()
    return {"ASCEND_SESSION_HOST_ROOT": str(tmp_path)}


@pytest.fixture
def empty_host(tmp_path: Path) -> Dict[str, str]:
    """The environment of a host without devices."""
    return {"ASCEND_SESSION_HOST_ROOT": str(tmp_path)}


def test_auto_is_the_stub_where_there_is_no_device(empty_host: Dict[str, str]) -> None:
    choice = choose("auto", empty_host)
    assert choice.name == "stub"
    assert choice.reason == "no Ascend processor is present (there is no /dev/davinci*)"


def test_auto_is_the_device_where_there_is_one(host: Dict[str, str]) -> None:
    choice = choose("auto", host)
    assert choice == Choice("npu", "2 Ascend device(s) are present, first /dev/davinci3", True)


@pytest.mark.parametrize("name", ["npu", "stub"])
def test_the_variable_decides_where_the_code_says_auto(host: Dict[str, str], name: str) -> None:
    choice = choose("auto", {**host, "ASCEND_SESSION_BACKEND": name})
    assert choice == Choice(name, f"ASCEND_SESSION_BACKEND={name} is set")


@pytest.mark.parametrize("value", ["auto", ""])
def test_a_variable_that_says_nothing_leaves_it_to_the_host(
    host: Dict[str, str], empty_host: Dict[str, str], value: str
) -> None:
    assert choose("auto", {**host, "ASCEND_SESSION_BACKEND": value}).name == "npu"


def test_a_virtual_device_is_named_as_it_is(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.nodes([100], virtual=True)
    reason = "1 Ascend device(s) are present, first /dev/vdavinci100"
    assert choose("auto", host.environ) == Choice("npu", reason, automatic=True)


def test_the_code_decides_before_the_variable(host: Dict[str, str]) -> None:
    choice = choose("stub", {**host, "ASCEND_SESSION_BACKEND": "npu"})
    assert choice == Choice("stub", 'backend="stub" is set')


@pytest.mark.parametrize("name", ["gpu", "STUB", " stub", ""])
def test_an_unknown_name_is_refused_with_where_it_stands(name: str) -> None:
    with pytest.raises(BackendError, match=f"backend='{name}' is not a backend") as refused:
        choose(name, {})
    assert refused.value.hint == "Choose from auto, npu, stub."
    if name:
        with pytest.raises(BackendError, match=f"ASCEND_SESSION_BACKEND='{name}'"):
            choose("auto", {"ASCEND_SESSION_BACKEND": name})


def test_a_present_device_is_not_passed_over(host: Dict[str, str]) -> None:
    with pytest.raises(BackendError) as refused:
        create(choose("auto", host), host)
    assert "/dev/davinci3" in refused.value.message
    assert 'backend="stub"' in str(refused.value.hint)
    assert "ASCEND_SESSION_BACKEND=stub" in str(refused.value.hint)


def test_the_stub_is_made_with_its_environment(empty_host: Dict[str, str]) -> None:
    stub = create(choose("auto", empty_host), empty_host)
    assert isinstance(stub, StubBackend)
    with pytest.raises(BackendError, match="STUB_DEVICES='none'"):
        create(Choice("stub", ""), {"ASCEND_SESSION_STUB_DEVICES": "none"})

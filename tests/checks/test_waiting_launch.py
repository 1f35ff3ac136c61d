"""A launch that waits until nobody holds its devices."""

import os
import re
import shutil
import socket
from typing import Any, List

import pytest

from ascend_session.errors import DeviceTimeoutError, PreflightError
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.plan.preflight import checked_plan
from ascend_session.launcher.plan.preflight_npu import check_free_again
from tests.checks.healthy import Healthy
from tests.fake_host import USER


@pytest.fixture
def held(healthy: Healthy) -> Healthy:
    """A training holds the second device."""
    healthy.host.process(4321, "python3 train.py", devices=[1])
    return healthy


def _config(healthy: Healthy, **more: Any) -> LaunchConfig:
    where = {"rank_table": str(healthy.table), "cwd": str(healthy.folder), "bind": "none"}
    asked = {**where, **more}
    return LaunchConfig(script="train.py", **asked)


def test_it_says_who_is_waited_for_and_goes_on_when_that_one_has_gone(held: Healthy) -> None:
    said: List[str] = []

    def say(sentence: str) -> None:
        said.append(sentence)
        shutil.rmtree(str(held.host.root / "proc" / "4321"))

    planned = checked_plan(_config(held, wait_for_devices=600), held.environ, say)
    assert planned.notes == ()
    (sentence,) = said
    assert re.fullmatch(
        r"Waiting for at most \d+ s: device 1 \(/dev/davinci1\) is held by process 4321 \(python3 "
        rf"train\.py\) of user {USER}\.",
        sentence,
    )


def test_a_port_is_waited_for_too_after_the_device(held: Healthy) -> None:
    """Who ends lets go of them one after the other."""
    base = int(held.environ["HCCL_IF_BASE_PORT"])
    said: List[str] = []
    with socket.socket() as server:
        server.bind(("", base + 1))
        server.listen(1)

        def say(sentence: str) -> None:
            said.append(sentence)
            if len(said) == 1:
                shutil.rmtree(str(held.host.root / "proc" / "4321"))
            else:
                server.close()

        planned = checked_plan(_config(held, wait_for_devices=600), held.environ, say)
    assert planned.notes == ()
    assert "is held by process 4321" in said[0]
    assert f"Port(s) {base + 1} of HCCL are used by process {os.getpid()}" in said[1]
    assert len(said) == 2


def test_a_port_that_stays_taken_is_in_the_way_when_the_time_is_over(healthy: Healthy) -> None:
    with socket.socket() as server:
        server.bind(("", int(healthy.environ["HCCL_IF_BASE_PORT"])))
        server.listen(1)
        with pytest.raises(PreflightError, match="are used by"):
            checked_plan(_config(healthy, wait_for_devices=0.01), healthy.environ)


def test_without_preflight_it_is_waited_all_the_same(held: Healthy) -> None:
    def say(sentence: str) -> None:
        shutil.rmtree(str(held.host.root / "proc" / "4321"))

    config = _config(held, wait_for_devices=600, preflight=False)
    assert checked_plan(config, held.environ, say).ranks
    assert not (held.host.root / "proc" / "4321").exists()


def test_the_time_that_is_over_is_an_error_of_its_own(held: Healthy) -> None:
    with pytest.raises(DeviceTimeoutError, match="is held by process 4321"):
        checked_plan(_config(held, wait_for_devices=0.01), held.environ, lambda sentence: None)


def test_an_interruption_ends_the_wait_at_once(held: Healthy) -> None:
    def say(sentence: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checked_plan(_config(held, wait_for_devices=600), held.environ, say)
    assert not held.logs.exists()


def test_nobody_waits_for_a_job_that_something_else_is_in_the_way_of(held: Healthy) -> None:
    (held.host.root / "dev" / "hisi_hdc").unlink()
    said: List[str] = []
    with pytest.raises(PreflightError) as refused:
        checked_plan(_config(held, wait_for_devices=600), held.environ, said.append)
    assert said == []
    assert "hisi_hdc" in refused.value.message
    assert "is held by" in refused.value.message


def test_another_attempt_does_not_begin_on_a_device_that_is_held(held: Healthy) -> None:
    def never(*anything: Any) -> None:
        raise AssertionError(anything)

    with pytest.raises(PreflightError, match="is held by process 4321"):
        check_free_again(plan_job(_config(held), held.environ), never, never)
    check_free_again(plan_job(_config(held, preflight=False), held.environ), never, never)


def test_another_attempt_waits_if_that_was_asked_for(held: Healthy) -> None:
    planned = plan_job(_config(held, wait_for_devices=600), held.environ)
    said: List[str] = []

    def sleep(seconds: float) -> None:
        shutil.rmtree(str(held.host.root / "proc" / "4321"))

    check_free_again(planned, said.append, sleep)
    assert len(said) == 1


def test_a_table_that_is_filled_in_is_waited_for(healthy: Healthy) -> None:
    whole = healthy.table.read_text()
    healthy.table.write_text(whole.replace("completed", "initializing"))
    said: List[str] = []

    def say(sentence: str) -> None:
        said.append(sentence)
        healthy.table.write_text(whole if said[1:] else whole[: len(whole) // 2])

    assert checked_plan(_config(healthy), healthy.environ, say).notes == ()
    first, half = said
    assert first == f"Waiting for at most 300 s: {healthy.table}: its status is 'initializing'."
    assert half.startswith("Waiting for at most 29")


def test_the_time_for_a_table_ends(healthy: Healthy) -> None:
    healthy.table.write_text(healthy.table.read_text().replace("completed", "initializing"))
    said = r"its status is 'initializing', and 0\.01 s have passed"
    with pytest.raises(PreflightError, match=said) as late:
        checked_plan(_config(healthy, wait_for_table=0.01), healthy.environ, lambda sentence: None)
    assert not late.value.is_wrong_call
    assert len(late.value.findings) == 1


def test_with_no_time_for_it_an_unfinished_table_is_in_the_way(healthy: Healthy) -> None:
    healthy.table.write_text(healthy.table.read_text().replace("completed", "initializing"))
    said: List[str] = []
    with pytest.raises(PreflightError, match="the table is not ready"):
        checked_plan(_config(healthy, wait_for_table=0), healthy.environ, said.append)
    assert said == []


def test_a_table_that_is_none_is_not_waited_for(healthy: Healthy) -> None:
    healthy.table.write_text("{")
    said: List[str] = []
    with pytest.raises(PreflightError):
        checked_plan(_config(healthy), healthy.environ, said.append)
    assert said == []


def test_ctrl_c_ends_the_wait_for_a_table(healthy: Healthy) -> None:
    healthy.table.write_text(healthy.table.read_text().replace("completed", "initializing"))

    def say(sentence: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checked_plan(_config(healthy), healthy.environ, say)
    assert not healthy.logs.exists()

"""What a system notes of what it did."""

import logging
from typing import Any

from ascend_session import ascend_system
from ascend_session.session.system import Event
from hardware_tests.backend_contract import steps


def test_events_are_noted_in_order_with_their_time(system: Any) -> None:
    with system.session():
        pass
    assert steps(system) == ["initialize", "bring up", "session open", "session close"]
    seconds = [event.seconds for event in system.events]
    assert seconds[0] >= 0
    assert seconds == sorted(seconds)


def test_an_event_reads_as_a_line() -> None:
    assert str(Event("initialize", "stub", 1.5)) == "   1.500 s  initialize: stub"
    assert str(Event("shutdown", "", 61.0)) == "  61.000 s  shutdown"


def test_events_go_to_the_log_for_those_who_debug(tf: Any, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG, "ascend_session.session"), ascend_system() as system:
        pass
    told = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert [record.getMessage() for record in told] == [str(event) for event in system.events]


def test_the_opening_of_a_session_names_its_device(tf: Any) -> None:
    with ascend_system() as system:
        with system.session(device_id=3), system.session():
            pass
    opened = [event.detail for event in system.events if event.name == "session open"]
    assert opened == ["device 3", "device 0"]


def test_the_events_of_a_system_can_be_read_when_it_is_closed(tf: Any) -> None:
    with ascend_system() as system:
        pass
    assert steps(system) == ["initialize", "shutdown"]
    assert system.events[0].detail == "stub"

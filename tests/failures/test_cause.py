"""Which failure is the root cause, in texts as they come from one rank or from several."""

import random
from typing import Optional

import pytest

from ascend_session.failures.scanner import classify, root_cause


def cause(text: str) -> Optional[str]:
    found = root_cause(classify(text))
    return found.code if found else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EI0006: late\nEI0002: late\nEI0004: no rank table", "EI0004"),
        ("EI0006: late\nEJ0001: busy", "EJ0001"),
        ("EI0002: late\nEL0001: no device", "EL0001"),
        ("[GePlugin] Initialize ge failed, ret : failed\nEI0003: wrong argument", "EI0003"),
        ("[GePlugin] Tdt host init failed, tdt error code : 31\nEJ0001: busy", "EJ0001"),
        ("E19999: Inner Error!\nEI0006: late", "EI0006"),
        ("EE9999: x\nEZ9999: x\nEH9999: x\nEI9999: x\nret 507033", "507033"),
        ("EZ9999: Inner Error!\nerror code is 507035", "507035"),
        ("error code is 507033\nE30006: Failed to verify the OPP", "E30006"),
        ("tsd client wait response fail\nE30003: too many", "E30003"),
        ("EI0006: late\nerror code is 507033", "507033"),
        ("error code is 507899\nResource_Busy(EL0005): busy", "EL0005"),
        ("[InitGroupStage][RanktableCheck] tls\nConfig_Error(EI0016): tls", "EI0016"),
        ("[InitChannelStage][Timeout]x\nEI0006: late", "EI0006"),
        (
            "EI0006: late\n[InitChannelStage][ParameterConflict]x",
            "[InitChannelStage][ParameterConflict]",
        ),
        ("[TaskExecStage][RunFailed]x\nEI0002: late", "EI0002"),
        ("error code is 507899\n[InitGroupStage][EnvConfig] x", "[InitGroupStage][EnvConfig]"),
        ("EI0015: late\n[TaskExecStage][Timeout]x", "EI0015"),
    ],
)
def test_what_says_more_wins_whatever_comes_first(text: str, expected: str) -> None:
    assert cause(text) == expected
    assert cause("\n".join(reversed(text.split("\n")))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EI0004: a\nEJ0001: b", "EI0004"),
        ("EJ0001: b\nEI0004: a", "EJ0001"),
        ("EI0006: a\nEI0002: b", "EI0006"),
        ("EZ9999: a\nEE9999: b", "EZ9999"),
        ("error code is 507033\nE39007: b", "507033"),
    ],
)
def test_among_equals_the_first_wins(text: str, expected: str) -> None:
    assert cause(text) == expected


@pytest.mark.parametrize("alone", ["EI0002", "E19999", "ret 507899", "[TaskExecStage][RunFailed]"])
def test_the_only_failure_is_the_root_cause(alone: str) -> None:
    assert cause(alone) == alone.replace("ret ", "")


@pytest.mark.parametrize("text", ["", "all is well", "[GePlugin] Ge has already initialized"])
def test_without_a_failure_there_is_no_root_cause(text: str) -> None:
    assert cause(text) is None


def test_failures_of_several_ranks_give_the_one_that_is_not_secondary() -> None:
    logs = ["EI0006: waits for rank 3\n"] * 7 + ["EE9999: x\nerror code is 507015\n"]
    random.Random(3).shuffle(logs)
    found = root_cause(failure for log in logs for failure in classify(log))
    assert found is not None
    assert found.code == "507015"

"""Every row of the table: realistic texts, its class, and what the classes ask of a row."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import pytest
import yaml

from ascend_session.failures.failure import Definition, Failure, FailureClass
from ascend_session.failures.scanner import classify
from ascend_session.failures.table import ROWS

EXAMPLES: List[Dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "messages.yaml").read_text(encoding="utf-8")
)

# guides/facts/failures.md#classes, read once more: what has which class, separated by semicolons.
# The stub's own sentence comes last.
CLASSES = {
    FailureClass.TRANSIENT: (
        "EJ0001; E30003; Open TsdClient failed; TsdOpen failed; Start aicpu executor failed; "
        "EL0005; 207005; 207007; 207008; 207009; 207010; halResourceIdAlloc failed; "
        "HDC recv msg err ret(16); dcmi ret is -8020"
    ),
    FailureClass.SECONDARY: (
        "EI0015; EI0006; EI0002; EI0012; EI0013; Heartbeat Lost; recv fail; EE1002; 507012; "
        "507046; 507047; 107020; [InitGroupStage][RanktableDetect]; [InitChannelStage][Timeout]; "
        "[TaskExecStage][Timeout]; [TaskExecStage][HeartbeatAbnormal]; The job cannot go on"
    ),
    FailureClass.PERMANENT: (
        "EL0006; EL0008; EL0009; EL0010; EL0011; EI0019; EJ0003; EI0001; EI0003; EI0004; EI0014; "
        "EI0017; EI0016; EI0005; EI0008; EI0007; EI0011; EL0004; 207001; 207018; EI0010; EJ0004; "
        "ra rdev init failed, ret -17; hccl_init failed, ret -17; "
        "EE2002; EE1001; EE1003; EE1004; 107001; EL0002; EL0003; EL0007; EL0015; EE1015; 507008; "
        "E30006; E30004; E30009; E40002; E40020; E20007; E30008; 507014; 507015; 507017; 507018; "
        "507034; 507035; 507048; 507049; 100002; 207015; ASCEND_DEVICE_ID is invalid; "
        "get rank id error; Call hcom_bind_model failed; "
        "CM_CHIEF_IP and RANK_TABLE_FILE cannot be configured at the same time; "
        "[InitGroupStage][EnvConfig]; [InitGroupStage][RanktableConfig]; "
        "[InitGroupStage][RanktableCheck]; [InitChannelStage][ParameterConflict]; "
        "[InitChannelStage][VersionConflict]; [TaskExecStage][InvalidArgument]"
    ),
    FailureClass.HARDWARE: (
        "ra hdc message process failed, ret -67; "
        "EJ0002; EL0001; 207004; E39002; E30005; E30007; E39004; E39005; E39006; 507010; 507053; "
        "507054; 507055; 507056; 507899"
    ),
    FailureClass.AMBIGUOUS: (
        "tsd client wait response fail; E39007; dcmi ret is -8005; 207020; 507051; 507901; 507033; "
        "[GePlugin] Initialize ge failed; GEInitialize failed; [GePlugin] Tdt host init failed; "
        "Initialize parser failed; E19999; EE9999; EH9999; EI9999; EZ9999"
    ),
}
# What the secondary ones of them ask for where no rank has a failure of its own, if anything.
BY_THEMSELVES = {
    FailureClass.TRANSIENT: "EI0015",
    FailureClass.HARDWARE: "EI0012; EI0013; Heartbeat Lost; recv fail",
    FailureClass.AMBIGUOUS: "EE1002; 507012; 507046; 507047; 107020",
    FailureClass.PERMANENT: "The job cannot go on",
}
# What the device ran out of, which another process may hold.
HELD = "EL0006; EL0008; EL0009; EL0010; EL0011; EI0007; EI0011; EL0004; 207001; 207018"
# What only says that something failed, or where.
VAGUE = (
    "E19999; EE9999; EH9999; EI9999; EZ9999; [GePlugin] Initialize ge failed; GEInitialize failed; "
    "[GePlugin] Tdt host init failed; Initialize parser failed; 507899; "
    "[InitGroupStage][EnvConfig]; [InitGroupStage][RanktableConfig]; "
    "[InitGroupStage][RanktableCheck]; [InitGroupStage][RanktableDetect]; "
    "[InitGroupStage][Resource]; [InitChannelStage][ParameterConflict]; "
    "[InitChannelStage][VersionConflict]; [InitChannelStage][Timeout]; "
    "[TaskExecStage][InvalidArgument]; [TaskExecStage][Not Supported]; [TaskExecStage][Timeout]; "
    "[TaskExecStage][RunFailed]; [TaskExecStage][HeartbeatAbnormal]"
)


def names(row: Definition) -> List[str]:
    """All that a failure of the row can be called."""
    return [code.name for code in row.codes] + [message.name for message in row.messages]


def row_of(name: str) -> Definition:
    return next(row for row in ROWS if name in names(row))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["finds"][-1]))
def test_realistic_text_is_recognised_completely_and_in_order(example: Dict[str, Any]) -> None:
    assert [failure.code for failure in classify(example["says"])] == example["finds"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: names(row)[0])
def test_a_row_has_realistic_texts_advice_in_sentences_and_a_wait_if_it_can_pass(
    row: Definition,
) -> None:
    texts = [example["says"] for example in EXAMPLES]
    found = {name for example in EXAMPLES for name in example["finds"]}
    assert [name for name in names(row) if name not in found] == []
    wordings = [message.words for message in row.messages]
    assert [words for words in wordings if not any(words in text for text in texts)] == []

    if row.failure_class is not FailureClass.PERMANENT:
        assert (row.wait_seconds is not None) == (row.failure_class is FailureClass.TRANSIENT)
    assert row.wait_seconds is None or row.wait_seconds >= 10

    assert row.advice[0].isupper()
    assert row.advice.endswith(".")
    assert row.source
    assert classify(row.advice) == [], "the advice looks like a failure itself"


def names_of(is_wanted: Callable[[Definition], bool]) -> Set[str]:
    return {name for row in ROWS if is_wanted(row) for name in names(row)}


@pytest.mark.parametrize("kind", list(FailureClass), ids=lambda kind: str(kind.value))
def test_class_is_the_one_of_the_facts(kind: FailureClass) -> None:
    unclassed = {"[InitGroupStage][Resource]", "[TaskExecStage][Not Supported]"}
    unclassed |= {"[TaskExecStage][RunFailed]"}
    mine = names_of(lambda row: Failure(names(row)[0], "", row).failure_class is kind) - unclassed
    assert mine == set(CLASSES[kind].split("; "))


@pytest.mark.parametrize("kind", list(BY_THEMSELVES), ids=lambda kind: str(kind.value))
def test_what_a_secondary_failure_asks_for_by_itself_is_that_of_the_facts(
    kind: FailureClass,
) -> None:
    mine = names_of(lambda row: row.is_secondary and row.failure_class is kind)
    assert mine == set(BY_THEMSELVES[kind].split("; "))


def test_a_permanent_failure_has_a_wait_if_another_process_may_hold_what_is_missing() -> None:
    is_held = names_of(
        lambda row: row.failure_class is FailureClass.PERMANENT and row.wait_seconds is not None
    )
    assert is_held == set(HELD.split("; "))


def test_what_does_not_say_what_failed_is_vague() -> None:
    assert names_of(lambda row: row.is_vague) == set(VAGUE.split("; "))


@pytest.mark.parametrize(
    ("name", "seconds"), [("EJ0001", 10), ("E30003", 10), ("207008", 60), ("EL0005", 60)]
)
def test_wait_is_the_official_one(name: str, seconds: int) -> None:
    assert row_of(name).wait_seconds == seconds


def test_a_code_belongs_to_one_row() -> None:
    codes = [code.name for row in ROWS for code in row.codes]
    assert sorted(codes) == sorted(set(codes))
    assert all(code.meaning for row in ROWS for code in row.codes)


def test_a_wording_with_a_code_belongs_to_the_row_of_that_code() -> None:
    codes = {code.name: row for row in ROWS for code in row.codes}
    for row in ROWS:
        for message in row.messages:
            assert codes.get(message.name, row) is row

"""Every row of the table: realistic texts, its class, and what the classes ask of a row."""

from pathlib import Path
from typing import Any, Dict, List

import pytest
import yaml

from ascend_session.failures import (
    ROWS,
    Condition,
    Definition,
    Failure,
    FailureClass,
    Role,
    classify,
)

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
UNDER_CONDITIONS = [
    ("EL0006", Condition.HELD_BY_OTHERS, FailureClass.TRANSIENT),
    ("EL0011", Condition.HELD_BY_OTHERS, FailureClass.TRANSIENT),
    ("207001", Condition.HELD_BY_OTHERS, FailureClass.TRANSIENT),
    ("EI0007", Condition.HELD_BY_OTHERS, FailureClass.TRANSIENT),
    ("EI0019", Condition.HELD_BY_ENDING_JOB, FailureClass.TRANSIENT),
    ("EJ0003", Condition.HELD_BY_ENDING_JOB, FailureClass.TRANSIENT),
    ("Open TsdClient failed", Condition.SHARED_BY_RANKS, FailureClass.PERMANENT),
    ("EI0015", Condition.NO_PRIMARY, FailureClass.TRANSIENT),
    ("EI0012", Condition.NO_PRIMARY, FailureClass.HARDWARE),
    ("recv fail", Condition.NO_PRIMARY, FailureClass.HARDWARE),
    ("507046", Condition.NO_PRIMARY, FailureClass.AMBIGUOUS),
    ("The job cannot go on", Condition.NO_PRIMARY, FailureClass.PERMANENT),
    ("EI0010", Condition.DEVICE_FAULTY, FailureClass.HARDWARE),
    ("E30009", Condition.DEVICE_FAULTY, FailureClass.HARDWARE),
]


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

    kinds = [row.failure_class] + ([row.otherwise.failure_class] if row.otherwise else [])
    assert (row.wait_seconds is not None) == (FailureClass.TRANSIENT in kinds)
    assert row.wait_seconds is None or row.wait_seconds >= 10

    assert row.advice[0].isupper()
    assert row.advice.endswith(".")
    assert row.source
    assert classify(row.advice) == [], "the advice looks like a failure itself"


@pytest.mark.parametrize("kind", list(FailureClass), ids=lambda kind: str(kind.value))
def test_class_is_the_one_of_the_facts(kind: FailureClass) -> None:
    rows = [row for row in ROWS if row.failure_class is kind and row.role is not Role.NOTICE]
    unclassed = {"[InitGroupStage][Resource]", "[TaskExecStage][Not Supported]"}
    unclassed |= {"[TaskExecStage][RunFailed]"}
    mine = {name for row in rows for name in names(row)} - unclassed
    assert mine == set(CLASSES[kind].split("; "))


@pytest.mark.parametrize(("name", "condition", "kind"), UNDER_CONDITIONS)
def test_class_changes_under_the_condition_of_the_facts(
    name: str, condition: Condition, kind: FailureClass
) -> None:
    failure = Failure(name, "", row_of(name))
    assert failure.given(condition) is kind
    others = [other for other in Condition if other is not condition]
    assert failure.given(*others) is failure.failure_class is not kind


def test_no_other_row_has_a_condition() -> None:
    conditional = [row for row in ROWS if row.otherwise is not None]
    assert {id(row) for row in conditional} == {id(row_of(name)) for name, _, _ in UNDER_CONDITIONS}


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


def test_a_second_initialisation_is_a_notice_only() -> None:
    notices = [names(row) for row in ROWS if row.role is Role.NOTICE]
    assert notices == [["Ge has already initialized"]]

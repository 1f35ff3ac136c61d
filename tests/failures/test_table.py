"""Every row of the table: realistic texts, its class, and what the classes ask of a row."""

import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import pytest
import yaml

from ascend_session.failures.failure import Definition, Failure, FailureClass
from ascend_session.failures.scanner import classify, look_up
from ascend_session.failures.table import ROWS

EXAMPLES: List[Dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "messages.yaml").read_text(encoding="utf-8")
)

# guides/facts/failures.md#classes, read once more: what has which class, separated by semicolons.
# The stub's own sentences come last.
CLASSES = {
    FailureClass.TRANSIENT: (
        "EJ0001; E30003; Open TsdClient failed; TsdOpen failed; Start aicpu executor failed; "
        "EL0005; 207005; 207007; 207008; 207009; 207010; 207011; halResourceIdAlloc failed; "
        "HDC recv msg err ret(16); dcmi ret is -8020"
    ),
    FailureClass.SECONDARY: (
        "EI0015; EI0006; EI0009; EI0002; EI0012; EI0013; EI0018; 507013; 507057; 507904; "
        "Heartbeat Lost; recv fail; EE1002; 507012; "
        "507046; 507047; 107020; [InitGroupStage][RanktableDetect]; [InitChannelStage][Timeout]; "
        "[TaskExecStage][Timeout]; [TaskExecStage][HeartbeatAbnormal]; The job cannot continue"
    ),
    FailureClass.PERMANENT: (
        "EL0006; EL0008; EL0009; EL0010; EL0011; EL0012; EL0013; EI0019; EI0020; "
        "EJ0003; EI0001; EI0003; EI0004; EI0014; "
        "EI0017; EI0016; EI0005; EI0008; EI0007; EI0011; EL0004; 207001; 207018; EI0010; EJ0004; "
        "ra rdev init failed, ret -17; hccl_init failed, ret -17; "
        "EE2002; EE1001; EE1003; EE1004; 107001; EL0002; EL0003; EL0007; EL0015; EE1015; 507008; "
        "E30006; E30004; E30009; E39008; E39011; E40002; E40020; E40024; E20007; E30008; EE1024; "
        "507014; 507015; 507017; 507018; EZ2001; "
        "507034; 507035; 507048; 507049; 100002; 207015; ASCEND_DEVICE_ID is invalid; "
        "E13024; E20002; E40001; E39001; 207006; "
        "107002; 107003; 107004; EE1010; 100001; 207000; EL0014; EE1013; EH0010; EE1021; 200000; "
        "207003; 207016; 207017; EZ3002; EZ3003; EZ0501; E10501; EZ9010; E13010; "
        "E40021; E20001; E22001; E90000; E90001; E90002; E90003; EA0000; EB0000; EZ0001; EZ1001; "
        "E10001; E20003; E13000; E13001; E13003; E13004; E13005; E21001; E21002; E40003; E40023; "
        "E10410; EK0001; EP0001; EO0001; "
        "get rank id error; Call hcom_bind_model failed; "
        "CM_CHIEF_IP and RANK_TABLE_FILE cannot be configured at the same time; "
        "[InitGroupStage][EnvConfig]; [InitGroupStage][RanktableConfig]; "
        "[InitGroupStage][RanktableCheck]; [InitChannelStage][ParameterConflict]; "
        "[InitChannelStage][VersionConflict]; [TaskExecStage][InvalidArgument]; "
        "No module named 'npu_bridge'; No module named 'hccl'; No module named 'npu_device'; "
        "can't start new thread; "
        "pthread_create failed; Resource temporarily unavailable; "
        "uninitialized value in SaveV2; Table not initialized; "
        "Error while reading resource variable; different_models; NaN"
    ),
    FailureClass.HARDWARE: (
        "ra hdc message process failed, ret -67; "
        "EJ0002; EL0001; 207004; E39002; E30005; E30007; E39004; E39005; E39006; 507010; 507053; "
        "507054; 507055; 507056; 507914; 507899; E39009; E39010"
    ),
    FailureClass.AMBIGUOUS: (
        "tsd client wait response fail; E39007; dcmi ret is -8005; 207020; 507051; 507052; "
        "507901; 507033; "
        "[GePlugin] Initialize ge failed; GEInitialize failed; [GePlugin] GE finalize failed; "
        "[GePlugin] Tdt host init failed; "
        "Initialize parser failed; E19999; EE9999; EH9999; EI9999; EZ9999; EZ9903; "
        "500000; 500001; 500002; 500003; 500004; 507000; 507001; 507011; EE1009; 0x91"
    ),
}
# What the secondary ones of them ask for where no rank has a failure of its own, if anything.
BY_THEMSELVES = {
    FailureClass.TRANSIENT: "EI0015",
    FailureClass.HARDWARE: (
        "EI0012; EI0013; EI0018; 507013; 507057; 507904; Heartbeat Lost; recv fail"
    ),
    FailureClass.AMBIGUOUS: "EE1002; 507012; 507046; 507047; 107020",
    FailureClass.PERMANENT: "The job cannot continue",
}
# What the device ran out of, which another process may hold.
HELD = (
    "EL0006; EL0008; EL0009; EL0010; EL0011; EL0012; EL0013; EI0007; EI0011; EL0004; 207001; 207018"
)
# What only says that something failed, or where.
VAGUE = (
    "E19999; EE9999; EH9999; EI9999; EZ9999; EZ9903; 500000; 500001; 500002; 500003; 500004; "
    "507000; 507001; 507011; EE1009; 0x91; E40021; E20001; E22001; "
    "[GePlugin] Initialize ge failed; GEInitialize failed; [GePlugin] GE finalize failed; "
    "[GePlugin] Tdt host init failed; Initialize parser failed; 507899; "
    "[InitGroupStage][EnvConfig]; [InitGroupStage][RanktableConfig]; "
    "[InitGroupStage][RanktableCheck]; [InitGroupStage][RanktableDetect]; "
    "[InitGroupStage][Resource]; [InitChannelStage][ParameterConflict]; "
    "[InitChannelStage][VersionConflict]; [InitChannelStage][Timeout]; "
    "[TaskExecStage][InvalidArgument]; [TaskExecStage][Not Supported]; [TaskExecStage][Timeout]; "
    "[TaskExecStage][RunFailed]; [TaskExecStage][HeartbeatAbnormal]"
)


VENDOR_CODES: Dict[str, str] = yaml.safe_load(
    (Path(__file__).parent / "data" / "vendor_codes.yaml").read_text(encoding="utf-8")
)


def expand(words: str) -> List[str]:
    """All codes of a list in which ``A-B`` stands for those from A to B."""
    codes: List[str] = []
    for word in words.split():
        first, _, last = word.partition("-")
        letters = first.rstrip("0123456789")
        digits = first[len(letters) :]
        for number in range(int(digits), int((last or first)[len(letters) :]) + 1):
            codes.append(f"{letters}{number:0{len(digits)}d}")
    return codes


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


@pytest.mark.parametrize("source", VENDOR_CODES)
def test_each_code_of_the_vendors_lists_is_explained_but_for_warnings(source: str) -> None:
    explained = [code for code in expand(VENDOR_CODES[source]) if look_up(code) is not None]
    expected = [] if source.startswith("not explained") else expand(VENDOR_CODES[source])
    assert explained == expected
    assert [code for code in explained if not getattr(look_up(code), "meaning", "")] == []


def test_a_code_belongs_to_one_family() -> None:
    families = [family for row in ROWS for family in row.families]
    codes = [code for words in VENDOR_CODES.values() for code in expand(words)]
    of_code = {
        code: [family for family in families if re.fullmatch(family.pattern, code)]
        for code in codes
    }
    assert [code for code, found in of_code.items() if len(found) > 1] == []
    unused = [
        family for family in families if not any(family in found for found in of_code.values())
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("E60012: [PID: 3] 2026-03-02 In op[Conv2D], Shape error", ["E60012"]),
        ("Not_Supported_Shape(E60012): In op[Conv2D], Shape error", ["E60012"]),
        ("the article E60012 is sold out", []),
        ("returned 545601", ["545601"]),
        ("the price is 545601", []),
    ],
)
def test_a_code_of_a_family_counts_where_the_vendor_marks_it(text: str, codes: List[str]) -> None:
    assert [failure.code for failure in classify(text)] == codes


@pytest.mark.parametrize(
    "text",
    [
        "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, error "
        "message = 'Resource temporarily unavailable')",
        "zmq.error.Again: Resource temporarily unavailable",
        '  File "read.py", line 3, in read\n    data = sock.recv(1)\n'
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "train.sh: fork: retry: Resource temporarily unavailable",
    ],
)
def test_what_else_is_temporarily_unavailable_is_no_process(text: str) -> None:
    assert classify(text) == []


@pytest.mark.parametrize("name", ["EZ3002", "ez3002", "507033", "0x91", "heartbeat lost"])
def test_a_failure_is_looked_up_by_its_name_in_upper_or_lower_case(name: str) -> None:
    failure = look_up(name)
    assert failure is not None
    assert failure.code.lower() == name.lower()


@pytest.mark.parametrize("name", ["EI0099", "precision_mode", "12", "", "E600123"])
def test_what_is_no_known_code_is_not_found(name: str) -> None:
    assert look_up(name) is None

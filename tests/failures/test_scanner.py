"""Texts of any kind and size: what stands alone, order, lines, time and memory."""

import time
import tracemalloc
from typing import List

import pytest

from ascend_session.failures.scanner import classify

NOISE = (
    "[INFO] HCCL(858941,train):2026-03-02-19:53:28.131.350 [hccl_communicator_attrs.cc:327] "
    "[858941] step 507015 of 600000, loss 0.1234, Enabled ranks and port EI of device 3 failed\n"
)


def codes(text: str) -> List[str]:
    return [failure.code for failure in classify(text)]


def seconds(text: str) -> float:
    begin = time.process_time()
    classify(text)
    return time.process_time() - begin


@pytest.mark.parametrize(
    "text",
    [
        "EI0002",
        "EI0002: 2026-03-02",
        "EI0002[PID: 110830] 2026-03-02",
        "Communication_Error_Timeout(EI0002): late",
        "[EI0002]",
        "code=EI0002, device 3",
        "the cause is EI0002.",
        "错误码EI0002。",
        "\tEI0002\r\n",
        "\x1b[31mEI0002\x1b[0m: late",
        "EI\x1b[1m0002",
        "\x1b]0;title\x07EI0002",
        "\x1b]0;title\x1b\\EI0002",
        "\x1b]0;EI0002: late, and the title never ends",
        r"InternalError('GeOp failed\nEI0002: late')",
        r'{"log": "failed\r\n\tEI0002: late"}',
    ],
)
def test_code_that_stands_alone_is_found(text: str) -> None:
    assert codes(text) == ["EI0002"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "XEI00021",
        "EI00021",
        "XEI0002",
        "EI0002X",
        "EI0002_case",
        "my_EI0002",
        "run-EI0002",
        "EI0002-a3",
        "/logs/EI0002/plog",
        "docs/link_timeout_EI0002.md",
        "EI0002.log",
        "EI 0002",
        "ei0002",
        "0xE30003",
        "1E30003",
        "EI00",
        "EX0002",
        "E99999",
        "tsd client waits",
        "[GePlugin] Ge has already initialized",
        "socket recv failed",
        "port and porting been bound elsewhere",
        "TsdOpen failed",
        "HDC recv msg err ret(11)",
        "ra rdev init failed, ret(-67)",
        "ra hdc message process failed ret(-1)",
        "[check][ip]fail, ret(5)",
        "hccl_init done, ret 17",
        "ret is -8020",
        "dcmi module initialize failed. ret is -80200",
        "listen on ip[10.0.0.1] and specific port[60000] success",
        "[InitGroupStage][DisplayConnectionedRank]total connected num is [4]",
        "[Timeout] of 3 s",
        "Attempting to use uninitialized value w\n\t [[{{node add}}]]\n\t [[save/SaveV2]]",
        "we compared 4 different models: resnet, vgg, mobilenet and inception",
    ],
)
def test_what_only_resembles_a_failure_is_not_found(text: str) -> None:
    assert codes(text) == []


def test_failures_come_in_order_of_appearance_and_once() -> None:
    text = "EI0006 x\nEJ0001 and EI0002\nEI0006 again, error code is 507015\nEJ0001\n"
    assert codes(text) == ["EI0006", "EJ0001", "EI0002", "507015"]


def test_order_holds_within_a_line_for_codes_and_wordings() -> None:
    text = "tsd client wait response fail, E39007, TsdOpen failed. devId=0, ret 507033, EI0002"
    expected = ["tsd client wait response fail", "E39007", "TsdOpen failed", "507033", "EI0002"]
    assert codes(text) == expected


def test_wording_is_found_next_to_its_word_even_if_it_came_without_before() -> None:
    assert codes("recv fail\n[ERROR] HCCL(1,a) recv fail\n") == ["recv fail"]


def test_word_that_a_wording_needs_must_stand_in_its_own_line() -> None:
    assert codes("[ERROR] HCCL(1,a) closed\nsocket recv failed\n") == []


def test_wording_and_the_code_that_goes_with_it_are_one_failure() -> None:
    wording = "Failed to initialize the HCCP process."
    assert codes(f"{wording} EJ0001") == codes(f"EJ0001: {wording}") == ["EJ0001"]


def test_a_line_has_no_colours() -> None:
    (failure,) = classify("one\n\n  \x1b[31mERROR\x1b[0m EJ0001: busy\nfour\n")
    assert failure.line == "ERROR EJ0001: busy"


def test_a_failure_is_found_behind_more_than_one_block() -> None:
    (failure,) = classify(NOISE * 5000 + "EJ0001\n" + NOISE)
    assert failure.line == "EJ0001"


def test_long_line_is_cut_around_the_code_and_holds_no_control_characters() -> None:
    (failure,) = classify("a" * 5000 + " EJ0001:\x07\tbusy " + "b" * 5000)
    assert "EJ0001:  busy" in failure.line
    assert failure.line.startswith("aaa")
    assert len(failure.line) == 240


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_may_end_as_on_any_system(end: str) -> None:
    failures = classify(end.join(["one", "two EJ0001", "three EI0002"]))
    assert [failure.line for failure in failures] == ["two EJ0001", "three EI0002"]


def test_ten_times_the_text_takes_about_ten_times_the_time() -> None:
    small = NOISE * (1_000_000 // len(NOISE))
    text = small * 10 + "EJ0001\n"
    least = min(seconds(small) for _ in range(3))
    assert codes(text) == ["EJ0001"]
    assert seconds(text) < 30 * least


@pytest.mark.parametrize(
    "piece",
    [
        "\x1b[",
        "\x1b]0;",
        "\x1b[0",
        "507015 ",
        "[507015] ",
        "ret ",
        "EI0002X",
        "recv fail ",
        "and port 1 ",
        "listen on ip[ and specific port[",
        "hccl_init ret ",
        "halResourceIdAlloc ",
        "dcmi ret is -802",
        "error error code is ",
    ],
)
def test_text_made_to_be_slow_takes_no_more_than_its_share(piece: str) -> None:
    small = piece * (100_000 // len(piece))
    least = max(min(seconds(small) for _ in range(3)), 0.005)
    assert seconds(small * 10) < 40 * least


def test_memory_does_not_grow_with_the_number_of_failures_in_a_block() -> None:
    text = "EI0002 EJ0001 ret 507015 recv fail " * 100_000
    tracemalloc.start()
    try:
        assert codes(text) == ["EI0002", "EJ0001", "507015"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(text)


@pytest.mark.parametrize(
    "text",
    [
        "npu_bridge is left out (No module named 'npu_bridge'), training goes on",
        "ModuleNotFoundError: No module named 'hccl_tools'",
        "ModuleNotFoundError: No module named 'my_npu_bridge'",
    ],
)
def test_a_program_that_does_without_a_vendors_package_has_not_failed_for_it(text: str) -> None:
    assert classify(text) == []


def test_a_variable_without_a_value_that_is_read_and_not_saved_is_no_known_failure() -> None:
    text = "Attempting to use uninitialized value weights\n\t [[{{node weights/read}}]]\n"
    assert classify(text) == []
    assert classify(f"{text}\t [[node save/SaveV2]]") == []

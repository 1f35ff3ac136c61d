"""Which numbers are return codes: as the vendor prints them, and what only looks like one."""

import pytest

from ascend_session.failures.scanner import classify

RETURN_CODES = [
    "ret 507033",
    "ret[507033]",
    "ret: 507033",
    "failed.ret=507033",
    "Call aclrtSetDevice failed, ret[507033]. Got device count[1]",
    "retCode=507033",
    "ret_code: 507033",
    "retVal 507033",
    "aclRet: 507033",
    "the call returned 507033",
    "return code 507033",
    "return value: 507033",
    "error code is 507033[Error]:",
    "error code:507033",
    "error code 507033",
    "Error Code: [507033]",
    "acl set device 0 failed, errorCode = 507033",
    "ErrCode=507033, desc=[device setup error]",
    "ERR_CODE=507033",
    "errno: 507033",
    "errNo[507033]",
    '{"error_code": 507033}',
    "aclError 507033",
    "acl error: 507033",
    "Reg callback failed, error: 507033",
    "open device 0 failed, runtime result = 507033.",
    "open device 0 failed runtime result = 507033",
    "aclrtSynchronizeStream(stream) failed: 507033 (main.cpp:108)",
    "aclrtSetDevice failed (507033)",
    "aclrtSetDevice failed [507033]",
    "device error: [507033]",
    "[507033]",
    "first line\n  [507033]  \nlast line",
]
OTHER_NUMBERS = [
    "The query returned 200000",
    "dataset.count returned 100000 rows",
    "Evaluation failed (100000)",
    "Restore failed: 200000 not found",
    "step 507033",
    "step [507033]",
    "global_step/sec: 2.1, step = 507033, loss = 0.3",
    "I1120 10:00:00 507033 basic_session_run_hooks.py:262] loss = 0.5, step = 507033",
    "epoch 3 [507033] loss 0.2",
    "(PID:507033, Device:0, RankID:2)",
    "[ERROR] HCCL(507033,python3):2026-03-02 [topoinfo.cc:695] [507033][Init]no device",
    "[ERROR] TDT(507033,python3) [client.cpp:31][TsdOpen][tid:507033] failed",
    "[507033] starting rank 0",
    "[ERROR] [507033] starting rank 0",
    "ret 0x507033",
    "retCode=0x7bc89",
    "ptr 0x12c507033000",
    "addr 507033 + 16",
    "ret 1507033",
    "ret 5070330",
    "ret 507033.5",
    "ret 507033abc",
    "ret -507033",
    "exit code 507033",
    "secret 507033",
    "interpret: 507033",
    "error count 507033",
    "2026-03-02-11:57:54.507033 ret 0",
    "errors [507033] of 600000",
    "failed [507033 of 600000]",
    "error [507033, 507034]",
    "ret\n507033",
    "failed\n[507033] starting rank 0",
    "507033",
    "ret 507999",
]


@pytest.mark.parametrize("text", RETURN_CODES)
def test_number_after_a_word_for_return_codes_is_found(text: str) -> None:
    assert [failure.code for failure in classify(text)] == ["507033"]


@pytest.mark.parametrize("text", OTHER_NUMBERS)
def test_number_in_any_other_place_is_not_found(text: str) -> None:
    assert classify(text) == []


def test_a_step_of_the_same_number_does_not_hide_the_return_code_after_it() -> None:
    (failure,) = classify("step 507015 of 600000\nloss 0.3\nstream failed, error code is 507015\n")
    assert failure.line == "stream failed, error code is 507015"

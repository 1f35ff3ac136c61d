"""Failure texts of the vendor's programs, word for word as launch_facts.md, B2 has them."""

from typing import List

import pytest

from ascend_session.hardware.failure_texts import known_failures


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "dcmi model initialized failed, because the device is used. ret is -8020",
            ["-8020", "another container", "mounts"],
        ),
        ("dcmi module initialize failed. ret is -8005", ["-8005", "driver", "mounted"]),
        (
            "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)",
            ["libraries", "/usr/local/Ascend/driver", "LD_LIBRARY_PATH"],
        ),
        ("dcmi module initialize failed. ret is -9005", ["-9005"]),
        (
            "npu-smi: error while loading shared libraries: libc_sec.so: cannot open",
            ["libc_sec.so", "LD_LIBRARY_PATH"],
        ),
        ("NPU 0 does not support querying proc-mem.", ["proc-mem"]),
        ("There is no NPU card on this server.", ["no NPU card"]),
        (
            "[WARNING]The driver package may not be completely installed, which may cause",
            ["completely installed"],
        ),
    ],
)
def test_a_known_text_becomes_one_sentence(text: str, words: List[str]) -> None:
    (said,) = known_failures(f"\x1b[31m{text}\x1b[0m\r\n")
    assert said.endswith(".")
    assert all(word in said for word in words)


def test_two_texts_become_two_sentences() -> None:
    text = (
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
        "dcmi model initialized failed, because the device is used. ret is -8020\n"
    )
    assert len(known_failures(text)) == 2


@pytest.mark.parametrize("text", ["", "all is well", "ret is -80201", "DrvMngGetConsoleLogLevel"])
def test_anything_else_is_not_known(text: str) -> None:
    assert known_failures(text) == []

"""What ``npu-smi info -t spod-info`` says."""

import pytest

from ascend_session.hardware.super_pods import parse_super_pod


def test_both_numbers_are_read():
    text = (
        "\tSDID       : 16777216\n\tSuper Pod Size : 384\n\tSuper Pod ID : 0\n\tServer Index : 4\n"
    )
    assert parse_super_pod(text) == ("16777216", "0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SDID : 1",
        "Super Pod ID : 1",
        "SDID : NA\nSuper Pod ID : 0",
        "SDID : 1\nSuper Pod ID : x",
    ],
)
def test_what_is_not_said_is_none(text):
    assert parse_super_pod(text) is None

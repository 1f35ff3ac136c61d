"""accelerate_train_mode: two or three fields, and a ratio compared as the adapter does."""

import random

import pytest

from tests.config.written import accelerate_train_mode


def refusal(value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        accelerate_train_mode(value)
    return str(caught.value)


LEGAL = [
    "fast|step|0.9",
    "fast|loss|1.05",
    "fast1|loss",
    "fast|step",
    "fast|step|",
    "fast1|step|0.2",
    "fast|loss|1.5",
    "fast|loss|1.01",
    "fast|step|.5",
    "fast|step|5e-1",
    "fast|step|+0.5",
    "fast|step|0.900000001",  # the same 32-bit number as 0.9
    "fast|step|0.19999999999",
    "fast|step|0." + "5" * 29,  # one character more would be too long
]


@pytest.mark.parametrize("text", LEGAL)
def test_legal_modes_are_returned_to_the_letter(text):
    assert accelerate_train_mode(text) == text


@pytest.mark.parametrize(
    ("structured", "text"),
    [
        (("fast", "step"), "fast|step"),
        (["fast1", "loss", 1.05], "fast1|loss|1.05"),
        (("fast", "step", "0.90"), "fast|step|0.90"),
        (("fast", "step", None), "fast|step"),
        ({"kind": "fast", "trigger": "step", "ratio": 0.9}, "fast|step|0.9"),
        ({"trigger": "loss", "kind": "fast1"}, "fast1|loss"),
    ],
)
def test_structured_modes_become_the_vendors_text(structured, text):
    assert accelerate_train_mode(structured) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it has 1 fields and must have two or three"),
        ("fast", "it has 1 fields"),
        ("fast|step|0.9|", "it has 4 fields"),
        ("slow|step|0.9", "the first field is 'slow' and must be 'fast' or 'fast1'"),
        (" fast|step", "the first field is ' fast'"),
        ("|step", "the first field is ''"),
        ("fast|x|0.5", "the second field is 'x' and must be 'step' or 'loss'"),
        ("fast|step\n", "the second field is 'step\\n'"),
        ("fast|step|0.1", "the ratio '0.1' is outside 0.2 to 0.9, the limits for 'step'"),
        ("fast|step|0.95", "the ratio '0.95' is outside 0.2 to 0.9"),
        ("fast|step|0.9001", "outside 0.2 to 0.9"),
        ("fast|loss|0.9", "outside 1.01 to 1.5, the limits for 'loss'"),
        ("fast|loss|1.6", "outside 1.01 to 1.5"),
        ("fast|loss|1e39", "outside 1.01 to 1.5"),
        ("fast|loss|1e999", "outside 1.01 to 1.5"),
        ("fast|step|nan", "the ratio 'nan' is not a decimal number"),
        ("fast|step|inf", "the ratio 'inf' is not a decimal number"),
        ("fast|step|0x1p-1", "is not a decimal number"),
        ("fast|step| 0.9", "the ratio ' 0.9' is not a decimal number"),
        ("fast|step|0.9\n", "the ratio '0.9\\n' is not a decimal number"),
        ("fast|step|0,9", "is not a decimal number"),
        ("fast|step|.", "is not a decimal number"),
        ("fast|step|0." + "5" * 30, "is not a decimal number of at most 31 characters"),
        (("fast", "step", 1), "the ratio '1' is outside"),
        (("fast", "step", float("nan")), "the ratio 'nan' is not a decimal number"),
        (("fast", "step", True), "is not among the accepted forms"),
        (("fast",), "is not among the accepted forms"),
        (("fast|step", "0.9"), "is not among the accepted forms"),
        ({"kind": "fast"}, "is not among the accepted forms"),
        ({"kind": "fast", "mode": "step"}, "is not among the accepted forms"),
        (0.9, "a value of type float is not among the accepted forms"),
    ],
)
def test_wrong_modes_are_refused_with_a_right_example(value, said):
    message = refusal(value)
    assert said in message
    assert "write for example" in message


def test_a_ratio_outside_the_limits_gets_an_example_for_the_same_trigger():
    assert "write for example 'fast|loss|1.5'" in refusal("fast|loss|2")


def test_structured_modes_round_trip():
    rng = random.Random(4)
    limits = {"step": (0.2, 0.9), "loss": (1.01, 1.5)}
    for _ in range(500):
        trigger = rng.choice(sorted(limits))
        mode = (rng.choice(["fast", "fast1"]), trigger, rng.uniform(*limits[trigger]))
        text = accelerate_train_mode(mode)
        assert accelerate_train_mode(text) == text
        assert float(text.split("|")[2]) == mode[2]

"""The reason in the texts of exceptions of TensorFlow, Keras and other libraries."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascend_session.failures.reason import find_reason, reason_of
from ascend_session.failures.record import read_record
from ascend_session.rank_folder import write_record
from tests.launcher.situations import Situation

RESTORING = (
    "Restoring from checkpoint failed. This is most likely due to a Variable name or other graph "
    "key that is missing from the checkpoint. Please ensure that you have not altered the graph "
    "expected based on the checkpoint. Original error:\n\n"
)
OF_1_15 = """\
Key beta1_power not found in checkpoint
\t [[node save/RestoreV2 (defined at /lib/tensorflow_core/python/framework/ops.py:1748) ]]

Original stack trace for 'save/RestoreV2':
  File "ck.py", line 13, in <module>
    saver = tf.train.Saver()
"""
OF_2 = """\
Graph execution error:

Detected at node 'save/RestoreV2' defined at (most recent call last):
    File "ck.py", line 13, in <module>
Node: 'save/RestoreV2'
Key beta1_power not found in checkpoint
\t [[{{node save/RestoreV2}}]]

Original stack trace for 'save/RestoreV2':
  File "ck.py", line 13, in <module>
"""


@pytest.mark.parametrize("below", [OF_1_15, OF_2])
def test_a_checkpoint_without_a_key_is_named_with_the_key(below: str) -> None:
    reason = "Restoring from checkpoint failed: Key beta1_power not found in checkpoint"
    assert reason_of(RESTORING + below) == reason


IN_CODE = {
    "1.15": """\
in converted code:
    relative to /lib/python3.7/site-packages:

    train.py:9 bad  *
        raise KeyError("label")

    KeyError: 'label_width is missing'
""",
    "2": """\
in user code:

    File "train.py", line 9, in bad  *
        raise KeyError("label")

    KeyError: 'label_width is missing'
""",
}
NESTED = """\
in user code:

    File "/lib/keras/src/engine/training.py", line 1401, in train_function  *
        return step_function(self, iterator)

    ValueError: Exception encountered when calling layer 'm' (type M).
    \n    in user code:
    \n        File "train.py", line 16, in call  *
            return tf.matmul(x, w)
    \n        ValueError: Dimensions must be equal, but are 3 and 5.
    \n    \n    Call arguments received by layer 'm' (type M):
      • x=tf.Tensor(shape=(None, 3), dtype=float32)
"""


@pytest.mark.parametrize("version", list(IN_CODE))
def test_autographs_frames_stand_before_the_reason(version: str) -> None:
    assert find_reason(IN_CODE[version]) == "'label_width is missing'"


def test_headings_within_headings_are_followed() -> None:
    reason = "Exception encountered when calling layer 'm' (type M): Dimensions must be equal, but "
    assert find_reason(NESTED) == reason + "are 3 and 5."


WITH_HEADINGS = [
    (
        "\n\nIMPORTANT: PLEASE READ THIS FOR ADVICE ON HOW TO SOLVE THIS ISSUE!\n\n"
        "Importing the numpy C-extensions failed. This error can happen for\nmany reasons.\n\n"
        "Please see:\n\n    https://numpy.org\n\nOriginal error was: libopenblas.so: not found\n",
        "Importing the numpy C-extensions failed: libopenblas.so: not found",
    ),
    (
        "1 validation error for TrainConfig\nlearning_rate\n  value is not a valid float "
        "(type=type_error.float)",
        "1 validation error for TrainConfig: learning_rate: value is not a valid float "
        "(type=type_error.float)",
    ),
    (
        "2 validation errors for TrainConfig\nrate\n  Input should be a valid number "
        "[type=float_parsing, input_value='x']\n    For further information visit https://x\n"
        "batch\n  Field required [type=missing]",
        "2 validation errors for TrainConfig: rate: Input should be a valid number "
        "[type=float_parsing, input_value='x']",
    ),
    (
        'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "fc.weight". '
        '\n\tUnexpected key(s) in state_dict: "head.weight". ',
        'Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "fc.weight". '
        'Unexpected key(s) in state_dict: "head.weight".',
    ),
    (
        "Exception encountered when calling M.call().\n\n\x1b[1mDimensions must be equal.\x1b[0m"
        "\n\nArguments received by M.call():\n  • x=1",
        "Exception encountered when calling M.call(): Dimensions must be equal.",
    ),
    (
        "A total of 2 objects could not be loaded. Example error message for object <Dense>:\n\n"
        "Layer 'dense' expected 2 variables, but received 0.\n\nList of objects:\n[<Dense>]",
        "A total of 2 objects could not be loaded: Layer 'dense' expected 2 variables, but "
        "received 0.",
    ),
    (
        "Caught OSError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
        'last):\n  File "x.py", line 3, in f\n    open(p)\nOSError: no shard 3\n',
        "Caught OSError in DataLoader worker process 0: OSError: no shard 3",
    ),
    (
        "\n\n-- Process 0 terminated with the following error:\nTraceback (most recent call last):"
        '\n  File "x.py", line 3, in f\n    read()\nValueError: shard 3 is empty\n',
        "-- Process 0 terminated with the following error: ValueError: shard 3 is empty",
    ),
    (
        'CollectiveError: a rank is missing\nTraceback (most recent call last):\n\n  File "x.py", '
        "line 3, in f\n    read()\n\nours.CollectiveError: a rank is missing\n",
        "CollectiveError: a rank is missing",
    ),
    (
        'while parsing a block mapping\n  in "c.yaml", line 1, column 1\nexpected <block end>\n  '
        'in "c.yaml", line 3, column 1',
        "while parsing a block mapping: expected <block end>",
    ),
    (
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = UNAVAILABLE\n\tdetails = x\n>",
        "<_InactiveRpcError of RPC that terminated with: status = UNAVAILABLE; details = x",
    ),
    ("Missing files:\n  a.txt\n  b.txt", "Missing files: a.txt; b.txt"),
    (
        "Command 'set -e\ncp /a /b\nrun' returned non-zero exit status 3.",
        "Command 'set -e cp /a /b run' returned non-zero exit status 3.",
    ),
]


@pytest.mark.parametrize(("message", "reason"), WITH_HEADINGS)
def test_a_reason_goes_on_behind_a_heading(message: str, reason: str) -> None:
    assert find_reason(message) == reason


@pytest.mark.parametrize(
    "message",
    [
        "no data",
        "one\ntwo",
        "(sqlite3.OperationalError) no such table: shards\n[SQL: SELECT 1]\n(Background: https://x)",
        'mapping values are not allowed here\n  in "c.yaml", line 2, column 7',
        "unexpected 'end of template'\n  line 3",
        "'x' is not of type 'number'\n\nFailed validating 'type' in schema:\n    {}",
        "An error occurred (404) when calling the HeadObject operation: Not Found",
        "FAILED",
    ],
)
def test_a_first_line_that_is_the_reason_stays_alone(message: str) -> None:
    assert find_reason(message) == message.split("\n")[0]


@pytest.mark.parametrize("message", ["", "\n", " \n\t\n"])
def test_an_empty_text_has_no_reason(message: str) -> None:
    assert find_reason(message) == ""


@pytest.mark.parametrize("message", [NESTED, *(message for message, _ in WITH_HEADINGS)])
def test_a_text_that_was_cut_is_read_without_an_error(message: str) -> None:
    for length in range(0, len(message), 5):
        assert bool(find_reason(message[:length])) == bool(message[:length].strip())


@pytest.mark.parametrize("part", ["a:\n", "a. B", "Command ", "in user code:\n", "A ", "a\n b\n"])
def test_a_text_that_repeats_a_heading_is_read_at_once(part: str) -> None:
    began = time.monotonic()
    assert find_reason(part * (200_000 // len(part)))
    assert time.monotonic() - began < 60


def test_the_summary_has_the_reason_once_and_not_the_type_twice(tmp_path: Path) -> None:
    made = Situation(tmp_path / "logs", 1)
    name = "tensorflow.python.autograph.pyct.errors.MultilineMessageKeyError"
    made.raised(0, name, IN_CODE["1.15"], 9.0, frames=[["train.py", 1, "main"]])
    assert made.cause().said == f"Rank 0 raised {name}: 'label_width is missing'."


def test_a_sentence_that_is_a_heading_is_followed_in_the_summary(tmp_path: Path) -> None:
    made = Situation(tmp_path / "logs", 1)
    message, reason = WITH_HEADINGS[1]
    made.raised(0, "pydantic.ValidationError", message, 9.0, frames=[["train.py", 1, "main"]])
    cause = made.cause()
    assert cause.said == f"Rank 0 raised pydantic.ValidationError: {reason}."
    assert cause.place[-1] == f"  pydantic.ValidationError: {reason}"


class _GroupError(Exception):
    def __init__(self, text: str, *exceptions: Exception) -> None:
        super().__init__(f"{text} ({len(exceptions)} sub-exceptions)")
        self.exceptions = exceptions


def test_a_group_of_exceptions_is_recorded_with_the_first_inner_one(tmp_path: Path) -> None:
    group = _GroupError(
        "outer", _GroupError("inner", ValueError("shard 3 is empty"), KeyError("b"))
    )
    write_record(group, str(tmp_path))
    record = read_record(str(tmp_path))
    assert record is not None
    reason = "outer (1 sub-exceptions): ValueError: shard 3 is empty"
    assert find_reason(record.message) == reason


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has groups of exceptions from 3.11")
def test_pythons_own_group_is_explained(tmp_path: Path) -> None:
    group = eval("ExceptionGroup")("in a TaskGroup", [ValueError("shard 3 is empty")])
    write_record(group, str(tmp_path))
    record = read_record(str(tmp_path))
    assert record is not None
    assert find_reason(record.message).endswith(": ValueError: shard 3 is empty")


def test_a_command_of_many_lines_keeps_its_fate() -> None:
    command = "\n".join(f"step {number}" for number in range(200))
    error = subprocess.CalledProcessError(3, command)
    reason = find_reason(str(error))
    assert reason.startswith("Command 'step 0 step 1 ")
    assert reason.endswith(" returned non-zero exit status 3.")
    assert len(reason) < 400

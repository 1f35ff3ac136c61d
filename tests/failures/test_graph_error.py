"""What is read from TensorFlow's messages about operators that failed."""

import time
from pathlib import Path
from typing import List

import pytest

from ascend_session.failures.reason import describe_error, parse_graph_error
from ascend_session.failures.record import Frame
from tests.launcher.situations import Situation

# As TensorFlow 1.15 prints them.
ONE_OF_1_15 = """\
indices[1] = 99 is not in [0, 10)
\t [[node lookup (defined at /lib/python3.7/site-packages/tensorflow_core/framework/ops.py:1748) ]]

Errors may have originated from an input operation.
Input Source operations connected to node lookup:
 Variable/read (defined at train.py:3)

Original stack trace for 'lookup':
  File "train.py", line 9, in <module>
    main()
  File "train.py", line 6, in model
    return tf.gather(table, ids)
  File "/lib/python3.7/site-packages/tensorflow_core/framework/ops.py", line 1748, in __init__
    self._traceback = tf_stack.extract_stack()
"""
TWO_OF_1_15 = f"""\
2 root error(s) found.
  (0) Invalid argument: {ONE_OF_1_15.partition("Errors may")[0].strip()}
\t [[add/_3]]
  (1) Invalid argument: indices[1] = 99 is not in [0, 10)
\t [[node lookup (defined at train.py:6) ]]
0 successful operations.
0 derived errors ignored.

{ONE_OF_1_15[ONE_OF_1_15.index("Errors may") :]}"""
# As TensorFlow 2 prints them: of a session, of a function, and of both with the lines of source.
SESSION_OF_2 = """\
Graph execution error:

Detected at node 'lookup' defined at (most recent call last):
    File "train.py", line 9, in <module>
      main()
    File "train.py", line 6, in model
      return tf.gather(table, ids)
Node: 'lookup'
Detected at node 'lookup' defined at (most recent call last):
    File "train.py", line 9, in <module>
    File "train.py", line 6, in model
Node: 'lookup'
2 root error(s) found.
  (0) CANCELLED: another one failed
\t [[{{node other}}]]
  (1) INVALID_ARGUMENT: indices[1] = 99 is not in [0, 10)
\t [[{{node lookup}}]]
0 successful operations.
0 derived errors ignored.

Original stack trace for 'lookup':
  File "train.py", line 9, in <module>
  File "train.py", line 6, in model
"""
FUNCTION_OF_2 = """\
Graph execution error:

Detected at node lookup defined at (most recent call last):
  File "train.py", line 9, in <module>

  File "train.py", line 6, in model

indices[1] = 99 is not in [0, 10)
\t [[{{node lookup}}]] [Op:__inference_step_13]"""

FAILURES = [ONE_OF_1_15, TWO_OF_1_15, SESSION_OF_2, FUNCTION_OF_2]
REASON = "indices[1] = 99 is not in [0, 10)"


@pytest.mark.parametrize("message", FAILURES)
def test_the_reason_is_found_with_the_operator_and_its_place(message: str) -> None:
    error = parse_graph_error(message)
    assert error is not None
    assert (error.reason, error.operator) == (REASON, "lookup")
    assert [frame for frame in error.frames if "/lib/" not in frame.path] == [
        Frame("train.py", 9, "<module>"),
        Frame("train.py", 6, "model"),
    ]


def test_the_reason_stands_without_what_tensorflow_puts_around_it() -> None:
    error = parse_graph_error(
        "{{function_node __wrapped__IteratorGetNext_device_/job:localhost/task:0}} no more data\n"
        "\t [[{{node Gather}}]] [Op:IteratorGetNext] name: "
    )
    assert error == ("no more data", "Gather", ())


@pytest.mark.parametrize(
    "message",
    ["", "\n", "no data", "one\ntwo\n", "Graph execution error:", "Graph execution error:\n\n"],
)
def test_other_messages_are_left_alone(message: str) -> None:
    assert parse_graph_error(message) is None
    assert describe_error(ValueError(message)) == f"ValueError: {message}".rstrip(": ")


@pytest.mark.parametrize("cut", range(0, len(SESSION_OF_2), 7))
def test_half_a_message_is_read_without_an_error(cut: int) -> None:
    error = parse_graph_error(SESSION_OF_2[:cut])
    assert error is None or error.reason


@pytest.mark.parametrize("part", [" ", "{{function_node ", "[Op:", "[[node "])
def test_a_reason_that_repeats_a_part_of_a_message_is_read_at_once(part: str) -> None:
    text = "a" + part * (60_000 // len(part)) + "b"
    began = time.monotonic()
    graph_error = parse_graph_error(f"{text}\n\t [[{{{{node lookup}}}}]]")
    assert time.monotonic() - began < 60
    assert graph_error is not None
    assert graph_error.reason == text.rstrip()


def test_other_ranks_hear_the_reason_in_one_line() -> None:
    assert describe_error(RuntimeError(FUNCTION_OF_2)) == f"RuntimeError: {REASON}"


@pytest.mark.parametrize("message", FAILURES)
def test_the_summary_names_the_reason_and_the_line_that_made_the_operator(
    tmp_path: Path, message: str
) -> None:
    script = tmp_path / "train.py"
    lines: List[str] = ["import tensorflow as tf"] * 5 + ["    return tf.gather(table, ids)"]
    script.write_text("\n".join(lines) + "\n")
    made = Situation(tmp_path / "logs", 1)
    text = message.replace("train.py", str(script))
    made.raised(0, "some.InvalidArgumentError", text, 9.0, frames=[[str(script), 1, "main"]])
    cause = made.cause()
    where = f"{script}:6 (model)"
    assert cause.said == (
        f"Rank 0 raised some.InvalidArgumentError: {REASON}. "
        f"The operator is 'lookup', which was made in {where}."
    )
    assert cause.place[-3:] == (
        f"  some.InvalidArgumentError: {REASON}",
        f"    the operator is 'lookup', which was made in {where}:",
        "        return tf.gather(table, ids)",
    )

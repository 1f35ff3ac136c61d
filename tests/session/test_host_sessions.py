"""A session without the system's options trains on the host of a device: that is said once."""

import warnings
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from ascend_session import AscendConfigWarning, ascend_system


@pytest.fixture(params=["stub", "npu"])
def system(request: Any, tf: Any) -> Iterator[Any]:
    """An open system of either backend."""
    if request.param == "npu":
        request.getfixturevalue("ge")
    with ascend_system(backend=request.param) as system:
        yield system


def model(tf: Any) -> Any:
    """The update of an optimizer, and a loss."""
    weight = tf.get_variable("weight", initializer=[[1.0]], use_resource=True)
    loss = tf.reduce_sum(tf.matmul(weight, weight))
    return tf.train.GradientDescentOptimizer(0.25).minimize(loss), loss


def run(tf: Any, session: Any, *operations: Any) -> List[str]:
    """Runs operations, or functions of a session, in a session; returns the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AscendConfigWarning)
        with session as sess:
            if not hasattr(sess, "should_stop"):
                sess.run(tf.global_variables_initializer())
            for operation in operations:
                if callable(operation):
                    operation(sess)
                else:
                    sess.run(operation)
    ours = [each for each in caught if each.category is AscendConfigWarning]
    assert {each.filename for each in ours} <= {__file__}
    return [str(each.message) for each in ours]


def test_an_update_in_a_plain_session_is_said_once_with_the_line(tf: Any, system: Any) -> None:
    step, _ = model(tf)
    line = 1 + next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines())
        if "tf.Session()" + "  # here" in text
    )
    session = tf.Session()  # here
    [message] = run(tf, session, step, step)
    assert message.startswith(
        f"The session that is opened at tests/session/{Path(__file__).name}:{line} trains, but it "
        "has none of the system's options: on a device it computes on the host."
    )
    assert "config=system.session_config()" in message
    assert run(tf, tf.Session(), step) == []


def test_so_is_one_of_tensorflows_helpers(tf: Any, system: Any) -> None:
    step, _ = model(tf)
    assert len(run(tf, tf.train.MonitoredTrainingSession(), step)) == 1


def test_an_update_inside_a_condition_is_seen(tf: Any, system: Any) -> None:
    weight = tf.get_variable("weight", [], use_resource=True)
    optimizer = tf.train.GradientDescentOptimizer(0.25)
    flag = tf.placeholder_with_default(True, [])
    step = tf.cond(flag, lambda: tf.group(optimizer.minimize(weight * 2.0)), tf.no_op)
    assert len(run(tf, tf.Session(), step)) == 1


def test_honest_sessions_are_silent(tf: Any, system: Any, tmp_path: Path) -> None:
    step, loss = model(tf)
    statistics = tf.get_variable("statistics", [], trainable=False, use_resource=True)
    average = tf.assign_sub(statistics, 0.1 * (statistics - loss))
    saver = tf.train.Saver(sharded=False)
    path = str(tmp_path / "model")
    assert run(tf, tf.Session(), loss, average, lambda sess: saver.save(sess, path)) == []
    assert run(tf, tf.Session(), lambda sess: saver.restore(sess, path), loss) == []
    assert run(tf, tf.Session(config=system.session_config()), step) == []
    assert run(tf, system.session(), step) == []
    monitored = tf.train.MonitoredTrainingSession(system.target, config=system.session_config())
    assert run(tf, monitored, step) == []

"""What has to be done for one device after the other, such as opening datasets."""

import warnings
from typing import Any, List

import pytest

from ascend_session import AscendConfigWarning, FanOutError, LifecycleError
from ascend_session.fanout import fan_out


def dataset(tf: Any, device_id: int) -> Any:
    """An iterator over ten times the device's id and what follows."""
    numbers = tf.data.Dataset.range(10 * device_id, 10 * device_id + 3)
    return tf.data.make_initializable_iterator(numbers)


def test_one_device_follows_the_other_in_the_order_given(tf: Any) -> None:
    begun: List[int] = []

    def work(session: Any, built: int) -> int:
        assert tf.get_default_session() is session
        assert tf.get_default_graph() is session.graph
        begun.append(built)
        return 10 * built

    with fan_out(None, [2, 0, 1], lambda device_id: device_id) as devices:
        assert devices.each(work) == [20, 0, 10]
    assert begun == [2, 0, 1]


def test_a_failure_names_the_device_and_those_after_it_are_not_tried(tf: Any) -> None:
    with fan_out(None, range(3), lambda device_id: device_id) as devices:
        with pytest.raises(FanOutError, match="Device 1 failed in the phase each: ") as failed:
            devices.each(lambda session, built: 1 // (1 - built))
        assert (failed.value.device_id, failed.value.phase) == (1, "each")
        assert failed.value.results == {0: 1}
        assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_it_is_refused_within_a_map_and_after_the_block(tf: Any) -> None:
    with fan_out(None, [0], lambda device_id: device_id) as devices:
        with pytest.raises(FanOutError, match="running on these devices already"):
            devices.map(lambda session, built: devices.each(lambda *_: None))
        with pytest.raises(TypeError, match="must be a function"):
            devices.each(None)  # type: ignore[arg-type]
    with pytest.raises(LifecycleError, match="was left"):
        devices.each(lambda session, built: None)


def test_datasets_that_are_opened_in_turn_are_read_at_the_same_time(tf: Any) -> None:
    def build(device_id: int) -> Any:
        iterator = dataset(tf, device_id)
        return iterator.initializer, iterator.get_next()

    with fan_out(None, [0, 1], build) as devices:
        devices.each(lambda session, built: session.run(built[0]))
        assert devices.map(lambda session, built: int(session.run(built[1]))) == [0, 10]


@pytest.mark.parametrize(("ids", "count"), [([0, 1], 1), ([0], 0)])
def test_a_map_over_datasets_that_nobody_opened_in_turn_warns_once(
    tf: Any, ids: List[int], count: int
) -> None:
    def build(device_id: int) -> Any:
        return dataset(tf, device_id).initializer

    with fan_out(None, ids, build) as devices, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            devices.map(lambda session, built: session.run(built))
    texts = [str(w.message) for w in said if w.category is AscendConfigWarning]
    assert len(texts) == count
    assert all("each() has not been called" in text for text in texts)

"""What training needs of the vendor: loops on the device, and its status of overflow."""

import importlib
from typing import Any, Callable, List

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.signatures import HELPER, NPU_UTIL, TF_ADAPTER
from tests.fake_host.vendor import Loaded, loaded


def counting(tf: Any) -> Any:
    """An operation that adds 1, and its variable."""
    total = tf.get_variable("total", initializer=[[0.0]])
    return tf.assign_add(total, [[1.0]]), total


class TestLoops:
    @pytest.mark.parametrize("steps", [1, 4])
    def test_a_run_makes_as_many_steps_as_the_session_was_told(
        self, ge: Loaded, tf: Any, proto: Callable[..., Any], steps: int
    ) -> None:
        util = importlib.import_module(NPU_UTIL)
        added, total = counting(tf)
        with tf.Session(config=proto()) as sess:
            sess.run(total.initializer)
            loop = util.set_iteration_per_loop(sess, added.op, steps)
            assert sess.run([loop, added])[1] == [[float(steps)]]
            assert sess.run(total) == [[float(steps)]]

    @pytest.mark.parametrize(("offloaded", "totals"), [(False, [0.0, 3.0]), (True, [3.0, 15.0])])
    def test_what_the_host_feeds_does_not_change_inside_a_loop(
        self, ge: Loaded, tf: Any, proto: Callable[..., Any], offloaded: bool, totals: List[float]
    ) -> None:
        # guides/facts/options.md#iterations-per-loop
        util = importlib.import_module(NPU_UTIL)
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(100))
        read = iterator.get_next()
        total = tf.get_variable("total", initializer=[[0.0]])
        added = tf.assign_add(total, [[tf.cast(read, tf.float32)]])
        with tf.Session(config=proto(enable_data_pre_proc=offloaded)) as sess:
            sess.run([total.initializer, iterator.initializer])
            loop = util.set_iteration_per_loop(sess, added.op, 3)
            found = []
            for number in range(2):
                last = sess.run([read, loop])[0]
                assert last == (number if not offloaded else 3 * number + 2)
                found.append(sess.run(total).item())
        assert found == totals

    def test_a_second_operation_is_not_known_to_the_adapter(
        self, ge: Loaded, tf: Any, proto: Callable[..., Any]
    ) -> None:
        util = importlib.import_module(NPU_UTIL)
        added, total = counting(tf)
        with tf.Session(config=proto()) as sess:
            sess.run(total.initializer)
            names = [util.set_iteration_per_loop(sess, added.op, 4).name for _ in range(2)]
            sess.run(names[1])
            assert sess.run(total) == [[1.0]]
        assert names == ["IterationOp", "IterationOp_1"]

    def test_what_the_vendor_refuses(self, ge: Loaded, tf: Any) -> None:
        util = importlib.import_module(NPU_UTIL)
        with tf.Session() as sess:
            with pytest.raises(ValueError, match="the need type is 'Operation'"):
                util.set_iteration_per_loop(sess, tf.constant(1), 2)
            with pytest.raises(ValueError, match="must be positive"):
                util.set_iteration_per_loop(sess, tf.no_op(), 0)
            with pytest.raises(TypeError, match="must be int"):
                util.set_iteration_per_loop(sess, tf.no_op(), 2.0)


class TestOverflow:
    @pytest.mark.parametrize(
        ("faults", "status"), [("", [0] * 8), ("overflow", [1] + [0] * 7), ("inf-nan", [0] * 8)]
    )
    def test_the_status_is_what_the_device_has_noticed(
        self, tf: Any, host: FakeHost, proto: Callable[..., Any], faults: str, status: List[int]
    ) -> None:
        with loaded(host, faults=faults):
            importlib.import_module("npu_bridge")
            operators = importlib.import_module(HELPER).get_gen_ops()
            read = operators.npu_get_float_status_v2()
            clear = operators.npu_clear_float_status_v2()
            with tf.Session(config=proto()) as sess:
                assert (read.dtype, read.shape.as_list()) == (tf.int32, [8])
                assert sess.run(read).tolist() == status
                assert sess.run(clear) is None

    @pytest.mark.parametrize(("faults", "mode"), [("", 0), ("inf-nan", 1)])
    def test_the_mode_can_be_asked_for_while_the_device_is_up(
        self,
        tf: Any,
        host: FakeHost,
        proto: Callable[..., Any],
        product: Any,
        faults: str,
        mode: int,
    ) -> None:
        with loaded(host, faults=faults):
            adapter = importlib.import_module(TF_ADAPTER)
            assert adapter.GetDeviceSatMode() == -1
            with tf.Session(config=proto()) as sess:
                sess.run(product)
                assert adapter.GetDeviceSatMode() == mode

"""Which variables are broadcast, in which order, and when."""

import warnings
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from ascend_session import (
    AscendConfigWarning,
    CollectiveError,
    JobError,
    UnsupportedError,
    ascend_session,
    ascend_system,
)
from ascend_session.session import graphs
from ascend_session.training import (
    BroadcastGlobalVariablesHook,
    DistributedOptimizer,
    broadcast_global_variables,
)
from tests.training.conftest import Equals, equals, install


class Root(Equals):
    """Ranks of which the root's values are seven, and whose variables have other names or not."""

    other_variables = False

    def broadcast(
        self, tensors: Any, root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """Sevens."""
        import tensorflow.compat.v1 as tf

        super().broadcast(tensors, root_rank, fusion, fusion_id, group)
        return [tf.cast(tf.zeros_like(one) + tf.cast(7, one.dtype), one.dtype) for one in tensors]

    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        """The fingerprints."""
        gathered = super().allgather(tensor, rank_size, group, fusion, fusion_id)
        return gathered + ([[0, 0], [1, -3]] if self.other_variables else 0)


@pytest.fixture
def root(monkeypatch: Any) -> Root:
    """A job of two ranks."""
    made = Root(2)
    install(monkeypatch, made, 2)
    return made


def test_all_global_variables_get_the_roots_values(tf: Any, root: Root) -> None:
    weight = tf.get_variable("weight", initializer=np.ones([2, 3], np.float32))
    step = tf.train.get_or_create_global_step()
    half = tf.get_variable("half", initializer=tf.constant(1, tf.float16), trainable=False)
    flag = tf.get_variable("flag", initializer=False, trainable=False)
    handle = tf.get_variable("handle", initializer=1.0, use_resource=True)
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
        parts = tf.get_variable("part", [4], initializer=tf.ones_initializer())
    own = tf.get_variable("own", initializer=1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    operation = broadcast_global_variables(1)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        sess.run(operation)
        assert sess.run([tf.reduce_min(weight), step, half, handle, own]) == [7, 7, 7, 7, 1]
        assert sess.run(flag) is np.bool_(True)
        assert sess.run(tf.convert_to_tensor(parts)).tolist() == [7.0] * 4
    assert [call.dtypes for call in root.calls] == [
        ["float32"] * 4,
        ["int64"],
        ["float16"],
        ["uint8"],
    ]
    # Only what has one dtype may be merged on the device.
    assert [(call.fusion, call.fusion_id) for call in root.calls] == [(2, n) for n in range(4)]


def test_slots_and_averages_are_broadcast_too(tf: Any, root: Root) -> None:
    weight = tf.get_variable("weight", initializer=1.0)
    tf.train.AdamOptimizer().minimize(weight * weight)
    broadcast_global_variables(0)
    assert len(root.calls[0].dtypes) == len(tf.global_variables()) == 5


def test_one_rank_sends_nothing(tf: Any, monkeypatch: Any) -> None:
    one = equals(monkeypatch, 1)
    tf.get_variable("weight", initializer=1.0)
    operation = broadcast_global_variables(0)
    with tf.Session() as sess:
        assert sess.run(operation) is None
    assert (operation.type, one.calls) == ("NoOp", [])


def test_no_variables_are_fine(tf: Any, root: Root) -> None:
    with tf.Session() as sess:
        assert sess.run(broadcast_global_variables(0)) is None


@pytest.mark.parametrize("dtype", ["string", "complex64"])
def test_what_hccl_does_not_carry_is_refused_by_name(tf: Any, root: Root, dtype: str) -> None:
    value = tf.constant("a") if dtype == "string" else tf.constant(1, tf.complex64)
    tf.get_variable("words", initializer=value, trainable=False)
    with pytest.raises(UnsupportedError, match=rf"'words:0' is of dtype {dtype}") as refused:
        broadcast_global_variables(0)
    assert "LOCAL_VARIABLES" in str(refused.value.hint)


@pytest.mark.parametrize("rank", [2, -1, True, 0.0, None])
def test_a_root_that_is_no_rank_is_refused(tf: Any, two: Equals, rank: Any) -> None:
    with pytest.raises(JobError, match="is not a rank of this job, which has 0 to 1"):
        broadcast_global_variables(rank)


def test_a_root_may_be_a_number_of_numpys(tf: Any, two: Equals) -> None:
    assert isinstance(broadcast_global_variables(np.int64(1)), tf.Operation)


def test_the_root_of_another_job_is_refused_in_a_job_of_one(tf: Any) -> None:
    with pytest.raises(JobError, match="root_rank=1 is not a rank of this job, which has 0 alone"):
        broadcast_global_variables(1)


def test_a_job_with_parameter_servers_is_refused(tf: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"ps": ["h:1"], "worker": ["h:2"]}}')
    with pytest.raises(UnsupportedError, match="parameter servers"):
        broadcast_global_variables(0)


class TestHook:
    def test_it_broadcasts_before_the_first_step(self, tf: Any, root: Root) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        hook = BroadcastGlobalVariablesHook()
        assert isinstance(hook, tf.train.SessionRunHook)
        with tf.train.MonitoredTrainingSession(hooks=[hook]) as sess:
            assert sess.run(weight) == 7.0
        assert [call.name for call in root.calls] == ["broadcast", "allgather"]

    def test_a_checkpoint_that_only_one_rank_restores_counts(
        self, tf: Any, root: Root, tmp_path: Path
    ) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        step = tf.train.get_or_create_global_step()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run([weight.assign(5.0), step.assign(40)])
            tf.train.Saver().save(sess, str(tmp_path / "model"))
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path),
            hooks=[BroadcastGlobalVariablesHook(1)],
            save_checkpoint_secs=None,
            save_summaries_steps=None,
        ) as sess:
            assert sess.run([weight, step]) == [7.0, 7]

    def test_other_variables_on_another_rank_are_said(self, tf: Any, root: Root) -> None:
        root.other_variables = True
        tf.get_variable("weight", initializer=1.0)
        with pytest.raises(CollectiveError, match="rank 0 has 1, rank 1 has -2"):
            tf.train.MonitoredTrainingSession(hooks=[BroadcastGlobalVariablesHook()])

    def test_the_other_variables_are_those_that_the_root_has_not(self, tf: Any, root: Root) -> None:
        root.other_variables = True
        tf.get_variable("weight", initializer=1.0)
        with pytest.raises(CollectiveError, match="rank 1 has -2, rank 0 has 1"):
            tf.train.MonitoredTrainingSession(hooks=[BroadcastGlobalVariablesHook(1)])

    def test_in_a_job_of_one_it_does_nothing(self, tf: Any) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        with ascend_system() as system:
            with tf.train.MonitoredTrainingSession(
                master=system.target,
                config=system.session_config(),
                hooks=[BroadcastGlobalVariablesHook()],
            ) as sess:
                assert sess.run(weight) == 1.0

    def test_it_serves_several_graphs_one_after_the_other(self, tf: Any, root: Root) -> None:
        hook = BroadcastGlobalVariablesHook()
        for _ in range(2):
            with tf.Graph().as_default():
                weight = tf.get_variable("weight", initializer=1.0)
                with tf.train.MonitoredTrainingSession(hooks=[hook]) as sess:
                    assert sess.run(weight) == 7.0


def warnings_of(caught: Any) -> List[str]:
    return [str(each.message) for each in caught if each.category is AscendConfigWarning]


class TestMissedVariables:
    def build(self, tf: Any, name: str, **options: Any) -> Any:
        return tf.get_variable(name, initializer=tf.ones([3]), use_resource=True, **options)

    def close(self, tf: Any) -> List[str]:
        """The warnings when a session on the default graph closes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with ascend_session():
                pass
        return warnings_of(caught)

    @pytest.fixture(autouse=True)
    def no_ranks(self, monkeypatch: Any, two: Equals) -> None:
        """Graphs of two ranks are built, and closed in a system of one."""
        monkeypatch.setattr(graphs, "RANKS_OF_GRAPH", "not compared")

    def test_a_variable_that_is_built_after_the_broadcast_is_named(
        self, tf: Any, monkeypatch: Any
    ) -> None:
        self.build(tf, "first")
        broadcast_global_variables(0)
        for name in ("second", "third"):
            self.build(tf, name)
        optimizer = DistributedOptimizer(tf.train.AdamOptimizer())
        optimizer.minimize(tf.add_n([tf.reduce_sum(each) for each in tf.trainable_variables()]))
        tf.train.Saver()
        monkeypatch.setenv("RANK_SIZE", "1")
        (said,) = self.close(tf)
        assert said.startswith(
            "The broadcast of this graph was built before 'second' and 1 more variables: each "
            "rank keeps its own initial values of these. Build it when the model is complete"
        )

    def test_one_that_nothing_updates_is_named_too(self, tf: Any, monkeypatch: Any) -> None:
        first = self.build(tf, "first")
        broadcast_global_variables(0)
        DistributedOptimizer(tf.train.AdamOptimizer()).minimize(tf.reduce_sum(first))
        self.build(tf, "second")
        monkeypatch.setenv("RANK_SIZE", "1")
        (said,) = self.close(tf)
        assert "was built before 'second': each rank" in said

    @pytest.mark.parametrize(
        "script",
        [
            *("no broadcast", "second broadcast", "own part", "averages", "slots", "assigned"),
            "independent",
        ],
    )
    def test_honest_scripts_are_left_alone(self, tf: Any, monkeypatch: Any, script: str) -> None:
        first = self.build(tf, "first")
        if script != "no broadcast":
            broadcast_global_variables(0)
        optimizer = DistributedOptimizer(tf.train.AdamOptimizer())
        optimizer.minimize(tf.reduce_sum(first * first), tf.train.get_or_create_global_step())
        if script in ("no broadcast", "second broadcast", "own part", "assigned"):
            second = self.build(tf, "second")
        if script == "second broadcast":
            broadcast_global_variables(0)
        if script == "own part":
            tf.train.AdamOptimizer(name="own").minimize(second, var_list=[second])
        if script == "averages":
            tf.train.ExponentialMovingAverage(0.9).apply([first])
        if script == "independent":
            self.build(tf, "second")
            monkeypatch.setenv("ASCEND_SESSION_INDEPENDENT", "1")
        if script == "assigned":
            second.assign(tf.placeholder(tf.float32, [3]))
        monkeypatch.setenv("RANK_SIZE", "1")
        assert self.close(tf) == []

    def test_a_hook_that_adds_a_trained_variable_is_seen_when_the_graph_is_finalized(
        self, tf: Any
    ) -> None:
        class Late(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
            def begin(hook) -> None:  # noqa: N805
                self.build(tf, "late")

        self.build(tf, "first")
        with pytest.warns(AscendConfigWarning, match="was built before 'late'"):
            with tf.train.MonitoredTrainingSession(
                hooks=[BroadcastGlobalVariablesHook(), Late()]
            ) as sess:
                assert sess.graph.finalized

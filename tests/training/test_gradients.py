"""Gradients averaged over ranks: what is exchanged, and what comes out."""

from typing import Any

import pytest

from ascend_session import JobError, LifecycleError, UnsupportedError, ascend_session
from ascend_session.training import distributed_gradients
from tests.training.conftest import Call, Equals, equals


class TestOneRank:
    def test_nothing_is_added_to_the_graph(self, tf: Any) -> None:
        gradient = tf.constant([1.0, 2.0])
        graph = tf.get_default_graph()
        before = graph.version
        assert distributed_gradients([gradient, None]) == [gradient, None]
        assert graph.version == before

    def test_the_open_systems_size_counts(self, tf: Any, two: Equals, monkeypatch: Any) -> None:
        monkeypatch.delenv("RANK_SIZE")
        with ascend_session():
            monkeypatch.setenv("RANK_SIZE", "2")
            gradient = tf.constant([1.0])
            assert distributed_gradients([gradient]) == [gradient]
            monkeypatch.delenv("RANK_SIZE")
        assert two.calls == []

    def test_a_session_in_a_job_of_another_size_is_refused(
        self, tf: Any, two: Equals, monkeypatch: Any
    ) -> None:
        distributed_gradients([tf.constant([1.0])])
        monkeypatch.delenv("RANK_SIZE")
        with pytest.raises(LifecycleError, match=r"over 2 rank\(s\), but the job has 1"):
            ascend_session().__enter__()


class TestDense:
    def test_the_mean_is_the_sum_divided_in_the_gradients_dtype(self, tf: Any, two: Equals) -> None:
        dtypes = ["float32", "float16", "bfloat16"]
        gradients = [tf.constant([3.0, 5.0], dtype) for dtype in dtypes]
        means = distributed_gradients(gradients)
        assert [mean.dtype.name for mean in means] == dtypes
        with tf.Session() as sess:
            values = sess.run([tf.cast(mean, tf.float32) for mean in means])
        assert [value.tolist() for value in values] == [[3.0, 5.0]] * 3
        assert two.calls == [Call("allreduce", [dtype], 1, -1) for dtype in dtypes]

    def test_pairs_keep_their_variables_and_none_stays_none(self, tf: Any, two: Equals) -> None:
        used = tf.get_variable("used", initializer=3.0)
        unused = tf.get_variable("unused", initializer=3.0)
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        pairs = distributed_gradients(optimizer.compute_gradients(used * used))
        assert [(pair[0] is None, pair[1]) for pair in pairs] == [(False, used), (True, unused)]
        assert [call.name for call in two.calls] == ["allreduce"]

    def test_pairs_may_be_lists(self, tf: Any, two: Equals) -> None:
        weight = tf.get_variable("weight", initializer=3.0)
        ((mean, variable),) = distributed_gradients([[tf.constant(2.0), weight]])
        assert (mean.shape, variable) == (tf.TensorShape([]), weight)

    def test_operators_have_the_vendors_scope(self, tf: Any, two: Equals) -> None:
        (mean,) = distributed_gradients([tf.constant([1.0])], name="bert")
        assert mean.name.startswith("bert_Allreduce/")

    def test_nothing_to_average_adds_nothing(self, tf: Any, two: Equals) -> None:
        assert distributed_gradients([]) == []
        assert distributed_gradients([None]) == [None]
        assert two.calls == []

    def test_gradients_and_pairs_do_not_mix(self, tf: Any, two: Equals) -> None:
        with pytest.raises(TypeError, match="all gradients, or all pairs"):
            distributed_gradients([tf.constant(1.0), (tf.constant(1.0), "variable")])


class TestSlices:
    def test_values_and_indices_are_gathered_and_the_values_divided(
        self, tf: Any, two: Equals
    ) -> None:
        table = tf.get_variable("table", initializer=tf.ones([4, 2]))
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3, 3]))
        slices = tf.gradients(loss, table)[0]
        mean = distributed_gradients([slices])[0]
        assert isinstance(mean, tf.IndexedSlices)
        assert mean.dense_shape is slices.dense_shape
        with tf.Session() as sess:
            values, indices = sess.run([mean.values, mean.indices])
        assert values.tolist() == [[0.5, 0.5]] * 6
        assert indices.tolist() == [1, 3, 3] * 2
        assert [(call.name, call.dtypes) for call in two.calls] == [
            ("allgather", ["float32"]),
            ("allgather", ["int32"]),
        ]


class TestRefusals:
    @pytest.mark.parametrize("size", [1, 2])
    @pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "bool"])
    def test_what_has_no_mean_is_refused_in_any_job(
        self, tf: Any, monkeypatch: Any, size: int, dtype: str
    ) -> None:
        equals(monkeypatch, size)
        gradient = tf.cast(tf.constant([1, 2]), dtype)
        with pytest.raises(UnsupportedError, match=f"of dtype {dtype}: a mean of integers"):
            distributed_gradients([gradient])

    @pytest.mark.parametrize("dtype", ["float64", "complex64"])
    def test_what_hccl_does_not_sum_is_refused_among_several_ranks(
        self, tf: Any, two: Equals, dtype: str, monkeypatch: Any
    ) -> None:
        gradient = tf.cast(tf.constant([1.0]), dtype)
        with pytest.raises(UnsupportedError, match=f"of dtype {dtype}, which HCCL does not sum"):
            distributed_gradients([gradient])
        monkeypatch.setenv("RANK_SIZE", "1")
        assert distributed_gradients([gradient]) == [gradient]

    def test_two_sizes_are_refused_as_the_vendor_does(self, tf: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("RANK_SIZE", "2")
        monkeypatch.setenv("CM_WORKER_SIZE", "2")
        with pytest.raises(JobError, match="RANK_SIZE=2 and CM_WORKER_SIZE=2 are both set"):
            distributed_gradients([tf.constant([1.0])])

    def test_a_size_that_only_the_rank_table_knows_is_refused(
        self, tf: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("RANK_TABLE_FILE", "table.json")
        monkeypatch.setenv("RANK_ID", "0")
        with pytest.raises(JobError, match="only the rank table knows it") as refused:
            distributed_gradients([tf.constant([1.0])])
        assert "RANK_SIZE" in str(refused.value.hint)

    @pytest.mark.parametrize(
        "config",
        [
            '{"cluster": {"ps": ["h:1"], "worker": ["h:2"]}, "task": {"type": "worker"}}',
            '{"task": {"type": "ps", "index": 0}}',
        ],
    )
    def test_a_job_with_parameter_servers_is_refused(
        self, tf: Any, monkeypatch: Any, config: str
    ) -> None:
        monkeypatch.setenv("TF_CONFIG", config)
        with pytest.raises(UnsupportedError, match="TF_CONFIG describes a job with parameter"):
            distributed_gradients([tf.constant([1.0])])

    def test_no_job_id_is_needed(self, tf: Any, two: Equals, monkeypatch: Any) -> None:
        # The vendor's ends in an AttributeError (guides/facts/process.md#collectives-in-a-graph).
        monkeypatch.delenv("JOB_ID", raising=False)
        assert len(distributed_gradients([tf.constant([1.0])])) == 1
        assert len(two.calls) == 1

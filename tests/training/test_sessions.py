"""Sessions in the short form: what they get of the system, and in which order they begin."""

import functools
import os
from pathlib import Path
from typing import Any, List

import pytest

from ascend_session import AscendConfig, LifecycleError, UnsupportedError, ascend_system
from ascend_session.training import DistributedOptimizer, estimator, initialize, monitored_session
from hardware_tests.backend_contract import entry
from tests.training.conftest import Equals


def build(tf: Any) -> Any:
    """A variable that loses 1 in each step, with a global step."""
    weight = tf.get_variable("weight", initializer=5.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    return weight, optimizer.minimize(weight, tf.train.get_or_create_global_step())


def steps_saved(tf: Any, folder: Path) -> List[str]:
    """The checkpoints in a folder."""
    state = tf.train.get_checkpoint_state(str(folder))
    return [os.path.basename(path) for path in state.all_model_checkpoint_paths] if state else []


class TestMonitoredSession:
    @pytest.mark.smoke
    def test_it_trains_saves_and_resumes(self, tf: Any, tmp_path: Path) -> None:
        for last in (2, 5):
            with tf.Graph().as_default(), ascend_system() as system:
                _, train = build(tf)
                hooks = [tf.train.StopAtStepHook(last_step=last)]
                with monitored_session(system, str(tmp_path), hooks) as sess:
                    while not sess.should_stop():
                        sess.run(train)
        assert steps_saved(tf, tmp_path) == ["model.ckpt-0", "model.ckpt-2", "model.ckpt-5"]
        reader = tf.train.load_checkpoint(str(tmp_path))
        assert reader.get_tensor("weight") == 0.0

    def test_it_has_the_options_of_the_system_and_of_a_proto(self, tf: Any) -> None:
        build(tf)
        base = tf.ConfigProto(inter_op_parallelism_threads=3)
        with ascend_system(AscendConfig(deterministic=1)) as system:
            with monitored_session(system, config=base) as sess:
                inner = sess._tf_sess()
                assert entry(inner) == {"deterministic": 1}
                assert inner._config.inter_op_parallelism_threads == 3
        assert not base.graph_options.rewrite_options.custom_optimizers

    def test_its_saver_is_not_sharded_and_saves_what_hooks_have_added(
        self, tf: Any, tmp_path: Path
    ) -> None:
        class Counter(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
            def begin(self) -> None:
                tf.get_variable("counter", initializer=3.0, trainable=False)

        build(tf)
        with ascend_system() as system:
            with monitored_session(system, tmp_path, [Counter()]) as sess:
                types = {operation.type for operation in sess.graph.get_operations()}
        assert "SaveV2" in types
        assert "MergeV2Checkpoints" not in types
        assert tf.train.load_checkpoint(str(tmp_path)).get_tensor("counter") == 3.0

    @pytest.mark.parametrize("owner", ["scaffold", "graph"])
    def test_a_saver_of_the_user_stays(self, tf: Any, tmp_path: Path, owner: str) -> None:
        _, train = build(tf)
        own = tf.train.Saver(max_to_keep=1)
        scaffold = tf.train.Scaffold(saver=own if owner == "scaffold" else None)
        if owner == "graph":
            tf.add_to_collection(tf.GraphKeys.SAVERS, own)
        with ascend_system() as system:
            with monitored_session(
                system, tmp_path, scaffold=scaffold, save_checkpoint_steps=1
            ) as sess:
                sess.run(train)
                sess.run(train)
        assert scaffold.saver is own
        assert steps_saved(tf, tmp_path) == ["model.ckpt-2"]

    def test_a_scaffold_without_a_saver_keeps_the_rest_and_gets_one(self, tf: Any) -> None:
        weight, _ = build(tf)
        scaffold = tf.train.Scaffold(init_fn=lambda _, sess: weight.load(9.0, sess))
        with ascend_system() as system:
            with monitored_session(system, scaffold=scaffold) as sess:
                assert sess.run(weight) == 9.0
        assert not scaffold.saver._sharded

    def test_one_rank_broadcasts_nothing(self, tf: Any) -> None:
        build(tf)
        with ascend_system() as system:
            with monitored_session(system) as sess:
                names = [operation.name for operation in sess.graph.get_operations()]
        assert not [name for name in names if "broadcast" in name.lower()]

    @pytest.mark.parametrize("name", ["master", "is_chief", "checkpoint_steps"])
    def test_an_argument_that_it_has_not_is_refused_by_name(self, tf: Any, name: str) -> None:
        build(tf)
        with ascend_system() as system:
            with pytest.raises(TypeError, match=name):
                monitored_session(system, **{name: True})

    def test_summaries_go_where_they_are_wanted(self, tf: Any, tmp_path: Path) -> None:
        weight, train = build(tf)
        tf.summary.scalar("weight", weight)
        with ascend_system() as system:
            with monitored_session(
                system, summary_dir=tmp_path, save_summaries_steps=1, log_step_count_steps=None
            ) as sess:
                sess.run(train)
        assert [path.name[:10] for path in tmp_path.iterdir()] == ["events.out"]


class TestInitialize:
    @pytest.mark.smoke
    def test_variables_tables_and_local_variables_are_ready(self, tf: Any) -> None:
        weight = tf.get_variable("weight", initializer=2.0)
        own = tf.get_variable("own", initializer=1, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        keys = tf.lookup.KeyValueTensorInitializer(["a"], [7])
        table = tf.lookup.StaticHashTable(keys, 0)
        found = table.lookup(tf.constant(["a"]))
        with ascend_system() as system, system.session() as sess:
            assert initialize(sess) == 0
            assert sess.run([weight, own]) == [2.0, 1]
            assert sess.run(found).tolist() == [7]

    @pytest.mark.parametrize("is_resource", [True, False])
    def test_a_step_that_is_not_registered_is_found_by_its_name(
        self, tf: Any, is_resource: bool
    ) -> None:
        tf.Variable(7, trainable=False, name="global_step", use_resource=is_resource)
        with ascend_system() as system, system.session() as sess:
            assert initialize(sess) == 7

    def test_the_latest_checkpoint_is_restored_and_its_step_returned(
        self, tf: Any, tmp_path: Path
    ) -> None:
        weight, train = build(tf)
        saver = tf.train.Saver()
        seen = []
        for _ in range(2):
            with ascend_system() as system, system.session() as sess:
                first = initialize(sess, tmp_path)
                seen.append((first, sess.run(weight)))
                sess.run(train)
                saver.save(sess, str(tmp_path / "model"), global_step=first + 1)
        assert seen == [(0, 5.0), (1, 4.0)]

    def test_a_saver_of_some_variables_restores_those(self, tf: Any, tmp_path: Path) -> None:
        weight = tf.get_variable("weight", initializer=5.0)
        saver = tf.train.Saver([weight])
        with ascend_system() as system, system.session() as sess:
            sess.run(weight.initializer)
            saver.save(sess, str(tmp_path / "model"))
        more = tf.get_variable("more", initializer=6.0)
        with ascend_system() as system, system.session() as sess:
            initialize(sess, str(tmp_path), saver=saver)
            assert sess.run([weight, more]) == [5.0, 6.0]

    def test_a_folder_without_checkpoints_is_a_beginning(self, tf: Any, tmp_path: Path) -> None:
        weight, _ = build(tf)
        with ascend_system() as system, system.session() as sess:
            assert initialize(sess, str(tmp_path / "missing")) == 0
            assert sess.run(weight) == 5.0

    def test_a_finalized_graph_is_refused_with_what_to_do(self, tf: Any) -> None:
        build(tf)
        with ascend_system() as system:
            with monitored_session(system) as sess:
                with pytest.raises(LifecycleError, match="The graph is finalized") as refused:
                    initialize(sess)
        assert "training.monitored_session(system, ...)" in str(refused.value.hint)

    def test_the_graph_of_the_session_counts(self, tf: Any) -> None:
        with tf.Graph().as_default() as graph:
            weight, _ = build(tf)
        with ascend_system() as system, system.session(graph) as sess:
            with tf.Graph().as_default() as other:
                initialize(sess)
            assert sess.run(weight) == 5.0
        assert not other.get_operations()

    def test_in_a_job_what_the_graph_has_is_broadcast_last(self, tf: Any, two: Equals) -> None:
        weight = tf.get_variable("weight", initializer=2.0)
        DistributedOptimizer(tf.train.AdamOptimizer()).minimize(weight * weight)
        two.calls.clear()
        with tf.Session() as sess:
            initialize(sess)
        assert [call.name for call in two.calls] == ["broadcast", "allgather"]
        assert two.calls[0].dtypes == ["float32"] * 5  # with the optimizer's


@pytest.fixture
def estimators(tf: Any) -> Any:
    """``tf.estimator``, where there is one."""
    if not hasattr(tf, "estimator"):
        pytest.skip("TensorFlow from 2.16 on has no estimators")
    return tf.estimator


class Model:
    """A ``model_fn`` whose single step adds the mean of its features to a variable."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts
        self.graphs: List[Any] = []

    def __call__(self, features: Any, mode: Any, params: Any) -> Any:
        import tensorflow.compat.v1 as tf

        self.graphs.append(tf.get_default_graph())
        weight = tf.get_variable("weight", initializer=float(params["begin"]))
        step = tf.train.get_or_create_global_step()
        train = tf.group(weight.assign_add(tf.reduce_mean(features)), step.assign_add(1))
        parts = {name: make() for name, make in self.parts.items()}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"sum": features + weight})
        return tf.estimator.EstimatorSpec(mode, loss=weight + 0.0, train_op=train, **parts)


def features() -> Any:
    """An endless dataset of ones."""
    import tensorflow.compat.v1 as tf

    return tf.data.Dataset.from_tensors([1.0]).repeat()


class TestEstimator:
    def test_it_trains_predicts_and_resumes_with_the_options_of_the_system(
        self, tf: Any, estimators: Any, tmp_path: Path
    ) -> None:
        model = Model()
        with ascend_system(AscendConfig(deterministic=1)) as system:
            made = estimator(
                model,
                system,
                tmp_path,
                params={"begin": 5},
                save_checkpoints_steps=2,
                tf_random_seed=3,
            )
            made.train(features, steps=2)
            made.train(features, steps=3)
            answer = next(made.predict(features))
        assert answer["sum"] == 11.0
        assert steps_saved(tf, tmp_path)[-2:] == ["model.ckpt-4", "model.ckpt-5"]
        assert made.config.tf_random_seed == 3
        options = AscendConfig.from_config_proto(made.config.session_config).parameter_map()
        assert options == {"deterministic": 1}
        for graph in model.graphs:
            (saver,) = graph.get_collection(tf.GraphKeys.SAVERS)
            assert not saver._sharded
            names = [operation.name for operation in graph.get_operations()]
            assert not [name for name in names if "broadcast" in name.lower()]

    def test_a_saver_of_the_model_stays(self, tf: Any, estimators: Any, tmp_path: Path) -> None:
        model = Model(scaffold=lambda: tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=1)))
        with ascend_system() as system:
            made = estimator(model, system, tmp_path, params={"begin": 0})
            made.train(features, steps=1)
        assert steps_saved(tf, tmp_path) == ["model.ckpt-1"]

    def test_a_proto_of_the_user_is_built_on(self, tf: Any, estimators: Any) -> None:
        base = tf.ConfigProto(inter_op_parallelism_threads=3)
        with ascend_system(AscendConfig(deterministic=1)) as system:
            made = estimator(Model(), system, params={"begin": 0}, session_config=base)
        proto = made.config.session_config
        assert proto.inter_op_parallelism_threads == 3
        assert AscendConfig.from_config_proto(proto).parameter_map() == {"deterministic": 1}

    def test_a_partial_function_gets_what_it_takes(
        self, tf: Any, estimators: Any, tmp_path: Path
    ) -> None:
        seen = []

        def model(features: Any, labels: Any, width: int, params: Any, config: Any) -> Any:
            seen.append((width, params, config.tf_random_seed))
            raise KeyError("seen")

        with ascend_system() as system:
            partial = functools.partial(model, width=7, params=8)
            made = estimator(partial, system, tmp_path, tf_random_seed=9)
            with pytest.raises(KeyError, match="seen"):
                made.train(lambda: features().map(lambda each: (each, each)))
        assert seen == [(7, 8, 9)]

    def test_a_tensorflow_without_estimators_is_refused_by_name(self, tf: Any) -> None:
        if hasattr(tf, "estimator"):
            pytest.skip("this TensorFlow has estimators")
        with ascend_system() as system:
            with pytest.raises(UnsupportedError, match=r"2\.15 is the last release with them"):
                estimator(Model(), system)

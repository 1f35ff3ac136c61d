"""One rank of a job: trains in several ways, and writes what became of it.

Usage: ``rank.py FOLDER``; the result is ``FOLDER/RANK.json``, ``{scenario: what it found}``.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Callable, Dict

from ascend_session import CollectiveError, ascend_system, hccl, training
from hardware_tests.graph_mode import tensorflow_in_graph_mode
from tests.training.programs.models import BATCH, STEPS, batches, digest, embedding_model

Found = Dict[str, Any]


def trained(tf: Any, system: Any, folder: Path) -> Found:
    """A few steps on this rank's part of each batch, after a broadcast from rank 1."""
    model = embedding_model(tf, seed=system.rank)
    optimizer = training.DistributedOptimizer(tf.train.AdamOptimizer(0.1))
    train = optimizer.minimize(model.loss)
    start = training.broadcast_global_variables(1)
    found: Found = {"losses": [], "weights": []}
    with system.session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(start)
        found["weights"].append(digest(sess.run(model.variables)))
        for ids, goals in batches(system.size):
            mine = slice(system.rank * BATCH, (system.rank + 1) * BATCH)
            feeds = {model.ids: ids[mine], model.goals: goals[mine]}
            found["losses"].append(float(sess.run([model.loss, train], feeds)[0]))
            found["weights"].append(digest(sess.run(model.variables)))
        found["everything"] = digest(sess.run(tf.global_variables()))
        found["collectives"] = sum("Hcom" in one.name for one in sess.graph.get_operations())
    return found


def overflown(tf: Any, system: Any, folder: Path) -> Found:
    """Three steps, in the second of which the last rank's loss is infinite."""
    weight = tf.get_variable("weight", initializer=[1.0, 2.0])
    factor = tf.placeholder_with_default(1.0, [])
    step = tf.train.get_or_create_global_step()
    manager = training.ExponentialUpdateLossScaleManager(64.0, 100, 1, decr_ratio=0.5)
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.25), manager)
    train = optimizer.minimize(tf.reduce_sum(weight) * factor, global_step=step)
    found = []
    with system.session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(3):
            bad = number == 1 and system.rank == system.size - 1
            sess.run(train, {factor: float("inf") if bad else 1.0})
            values = sess.run([weight, step, manager.get_loss_scale()])
            found.append([values[0].tolist(), int(values[1]), float(values[2])])
    return {"steps": found}


def averaged(tf: Any, system: Any, folder: Path) -> Found:
    """Gradients of each kind, different on each rank."""
    rank = float(system.rank)
    dense = tf.constant([rank, 2 * rank])
    half = tf.constant([rank + 1], tf.float16)
    slices = tf.IndexedSlices(tf.constant([[rank], [rank]]), tf.constant([system.rank, 0]))
    means = training.distributed_gradients([dense, None, half, slices])
    with system.session() as sess:
        values = sess.run([means[0], means[2], means[3].values, means[3].indices])
    return {"values": [value.tolist() for value in values], "none": means[1] is None}


def broadcast(tf: Any, system: Any, folder: Path) -> Found:
    """Variables of many dtypes; a checkpoint that only rank 0 restores."""
    rank = system.rank
    saved = tf.get_variable("saved", initializer=float(rank))
    flag = tf.get_variable("flag", initializer=rank == 0, trainable=False)
    half = tf.get_variable("half", initializer=tf.constant(rank, tf.float16), trainable=False)
    handle = tf.get_variable("handle", initializer=rank, use_resource=True, trainable=False)
    own = tf.get_variable("own", initializer=rank, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    step = tf.train.get_or_create_global_step()
    place = folder / "checkpoints"
    if rank == 0:
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run([saved.assign(42.0), step.assign(1234567890123)])
            tf.train.Saver().save(sess, str(place / "model"))
    hook = training.BroadcastGlobalVariablesHook()
    with tf.train.MonitoredTrainingSession(
        master=system.target,
        config=system.session_config(),
        checkpoint_dir=str(place) if rank == 0 else None,
        hooks=[hook],
        save_checkpoint_secs=None,
        save_summaries_steps=None,
    ) as sess:
        values = sess.run([saved, flag, half, handle, step, own])
    return {"values": [value.item() for value in values]}


def initialized(tf: Any, system: Any, folder: Path) -> Found:
    """A plain session with values of each rank, which twice begins with those of rank 0."""
    weight = tf.get_variable("weight", initializer=float(system.rank + 1))
    step = tf.train.get_or_create_global_step()
    advance = tf.group(weight.assign_add(10.0 + system.rank), step.assign_add(3))
    saver = tf.train.Saver()
    place = folder / f"initialized_{system.rank}"
    found = []
    for _ in range(2):
        with system.session() as sess:
            first = training.initialize(sess, str(place))
            found.append([first, float(sess.run(weight))])
            sess.run(advance)
            saver.save(sess, str(place / "model"))
    return {"begins": found}


def monitored(tf: Any, system: Any, folder: Path) -> Found:
    """Two sessions that write checkpoints on rank 0, with a hook that looks when they begin."""
    seen = []

    class Look(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
        def after_create_session(self, session: Any, coord: Any) -> None:
            seen.append([float(value) for value in session.run([weight, step])])

    place = folder / f"monitored_{system.rank}"
    chiefs: Any = [Look()]
    for last in (2, 4):
        with tf.Graph().as_default():
            weight = tf.get_variable("weight", initializer=float(system.rank))
            step = tf.train.get_or_create_global_step()
            optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
            train = optimizer.minimize(-weight * (1.0 + system.rank), step)
            hooks = [Look(), tf.train.StopAtStepHook(last_step=last)]
            with training.monitored_session(system, place, hooks, chief_only_hooks=chiefs) as sess:
                while not sess.should_stop():
                    sess.run(train)
    return {"seen": seen, "files": sorted(path.name for path in place.glob("*.index"))}


def estimated(tf: Any, system: Any, folder: Path) -> Found:
    """An estimator that all ranks train together, and that resumes where rank 0 stopped."""
    if not hasattr(tf, "estimator"):
        return {"steps": None}
    seen = []

    class Look(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
        def begin(self) -> None:
            step = tf.train.get_global_step()
            self.values = [each.read_value() for each in (*tf.trainable_variables(), step)]

        def after_create_session(self, session: Any, coord: Any) -> None:
            seen.append([float(value) for value in session.run(self.values)])

    def model(features: Any, mode: str) -> Any:
        weight = tf.get_variable("weight", initializer=float(system.rank))
        optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
        loss = -weight * tf.reduce_mean(features) * (1.0 + system.rank)
        train = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=train, training_chief_hooks=[Look()]
        )

    def ones() -> Any:
        return tf.data.Dataset.from_tensors([1.0]).repeat()

    place = folder / "estimated"
    for _ in range(2):
        training.estimator(model, system, place).train(ones, [Look()], steps=2)
        # Another machine, which has no folder of an earlier attempt.
        shutil.rmtree(place / f"rank_{system.rank}", ignore_errors=True)
    return {"seen": seen, "files": sorted(path.name for path in place.glob("*.index"))}


def different(tf: Any, system: Any, folder: Path) -> Found:
    """A variable that only rank 0 has."""
    tf.get_variable("common", initializer=1.0)
    if system.rank == 0:
        tf.get_variable("alone", initializer=1.0)
    try:
        tf.train.MonitoredTrainingSession(
            config=system.session_config(), hooks=[training.BroadcastGlobalVariablesHook()]
        )
    except CollectiveError as error:
        return {"said": error.message}
    return {"said": None}


def unequal(tf: Any, system: Any, folder: Path) -> Found:
    """Global steps that only rank 0 has restored."""
    own = 40 if system.rank == 0 else 0
    step = tf.get_variable(
        "global_step",
        initializer=tf.constant(own, tf.int64),
        trainable=False,
        collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP],
    )
    step.assign_add(1)
    try:
        tf.train.MonitoredTrainingSession(
            config=system.session_config(),
            hooks=[training.SaveOnPreemptionHook(str(folder / "unequal"))],
        )
    except CollectiveError as error:
        return {"said": error.message}
    return {"said": None}


def looped(tf: Any, system: Any, folder: Path) -> Found:
    """Two runs of three steps, each step with its collectives, on a single thread."""
    data = tf.data.Dataset.range(1, 1000).shard(hccl.size(), hccl.rank())
    iterator = tf.data.make_initializable_iterator(data)
    weight = tf.get_variable("weight", initializer=0.0)
    step = tf.train.get_or_create_global_step()
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
    loss = -weight * tf.cast(iterator.get_next(), tf.float32)
    train = optimizer.minimize(loss, global_step=step)
    threads = tf.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    found = []
    with system.session(session_config=threads) as sess:
        sess.run([tf.global_variables_initializer(), iterator.initializer])
        loop = training.iterations_per_loop(sess, train, 3)
        for _ in range(2):
            sess.run(loop)
            found.append([int(sess.run(step)), float(sess.run(weight))])
    return {"runs": found}


def keras(tf: Any, system: Any, folder: Path) -> Found:
    """A model of Keras, where there is one for graphs."""
    if not hasattr(tf.keras.optimizers.SGD, "get_updates"):
        return {"weights": None}
    from tests.training.programs.models import keras_model

    with system.session() as sess:
        tf.keras.backend.set_session(sess)
        optimizer = training.DistributedOptimizer(tf.keras.optimizers.SGD(0.125))
        model = keras_model(tf, optimizer, seed=system.rank)
        start = training.broadcast_global_variables(0)
        tf.keras.backend.get_session().run(start)  # which initialises the variables
        for inputs, goals in batches(system.size):
            mine = slice(system.rank * BATCH, (system.rank + 1) * BATCH)
            model.train_on_batch(inputs[mine], goals[mine])
        return {"weights": digest(model.get_weights())}


_SCENARIOS: Dict[str, Callable[[Any, Any, Path], Found]] = {
    one.__name__: one
    for one in (
        trained,
        overflown,
        averaged,
        broadcast,
        initialized,
        monitored,
        estimated,
        different,
        unequal,
        looped,
        keras,
    )
}


def main(folder: Path) -> None:
    """Runs all scenarios, each in a graph of its own, in one system."""
    import warnings

    tf = tensorflow_in_graph_mode()
    warnings.simplefilter("ignore")
    found: Dict[str, Found] = {}
    with ascend_system() as system:
        for name, scenario in _SCENARIOS.items():
            with tf.Graph().as_default():
                found[name] = scenario(tf, system, folder)
    assert len(found["trained"]["losses"]) == STEPS
    (folder / f"{os.environ['RANK_ID']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Gradients that were never averaged are named, and honest scripts are left alone."""

import re
import warnings
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from ascend_session import AscendConfigWarning, hccl
from ascend_session.training import (
    DistributedOptimizer,
    ExponentialUpdateLossScaleManager,
    distributed_gradients,
)


@pytest.fixture
def job(monkeypatch: Any) -> None:
    """A job of two ranks, of which only graphs are built."""
    monkeypatch.setenv("RANK_SIZE", "2")
    monkeypatch.setenv("RANK_ID", "0")


class Net:
    """Two variables and a loss with data, and an optimizer for several ranks."""

    def __init__(self, tf: Any, **options: Any) -> None:
        self.tf = tf
        self.data = tf.placeholder(tf.float32, [None, 4])
        self.kernel = tf.get_variable("kernel", [4, 3], use_resource=True)
        self.bias = tf.get_variable("bias", [3], use_resource=True)
        self.variables = [self.kernel, self.bias]
        self.output = tf.nn.relu(tf.matmul(self.data, self.kernel) + self.bias)
        self.loss = tf.reduce_mean(tf.square(self.output))
        self.step = tf.train.get_or_create_global_step()
        self.optimizer = DistributedOptimizer(tf.train.AdamOptimizer(0.1), **options)

    def gradients(self, loss: Any = None) -> List[Any]:
        return list(self.tf.gradients(self.loss if loss is None else loss, self.variables))

    def apply(self, gradients: List[Any], variables: Any = None) -> Any:
        pairs = list(zip(gradients, variables or self.variables))
        return self.optimizer.apply_gradients(pairs, global_step=self.step)


def warned(script: Callable[[Any], Any], tf: Any) -> List[str]:
    """The warnings of a script."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        script(tf)
    return [str(each.message) for each in caught if each.category is AscendConfigWarning]


def as_they_are(tf: Any) -> None:
    net = Net(tf)
    net.apply(net.gradients())


def clipped(tf: Any) -> None:
    net = Net(tf)
    net.apply(tf.clip_by_global_norm(net.gradients(), 1.0)[0])


def of_the_inner_optimizer(tf: Any) -> None:
    net = Net(tf)
    pairs = tf.train.AdamOptimizer().compute_gradients(net.loss)
    net.apply([gradient for gradient, _ in pairs])


def scaled(tf: Any) -> None:
    net = Net(tf, loss_scale_manager=ExponentialUpdateLossScaleManager(2.0**32, 1000, 2))
    scale = net.optimizer._manager.get_loss_scale()
    net.apply([gradient / scale for gradient in net.gradients(net.loss * scale)])


def of_an_embedding(tf: Any) -> None:
    net = Net(tf)
    ids = tf.placeholder(tf.int32, [None])
    rows = tf.nn.embedding_lookup(net.kernel, ids)
    (gradient,) = tf.gradients(tf.reduce_sum(rows * rows), [net.kernel])
    assert isinstance(gradient, tf.IndexedSlices)
    net.apply([gradient], [net.kernel])


def of_two_towers(tf: Any) -> None:
    net = Net(tf)
    towers = [net.gradients(net.loss), net.gradients(net.loss * 2.0)]
    net.apply([tf.add_n(parts) / 2.0 for parts in zip(*towers)])


def with_hidden_others(tf: Any) -> None:
    net = Net(tf)
    kernel, bias = net.gradients()
    hidden = tf.numpy_function(lambda value: value, [bias], tf.float32)
    hidden.set_shape(bias.shape)
    net.apply([kernel, hidden])


def of_keras(tf: Any) -> None:
    if not hasattr(tf.keras.optimizers.SGD, "get_updates"):
        pytest.skip("this Keras has no graph mode")
    net = Net(tf)
    optimizer = DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
    optimizer.apply_gradients(zip(net.gradients(), net.variables))


LOCAL = [
    as_they_are,
    clipped,
    of_the_inner_optimizer,
    scaled,
    of_an_embedding,
    of_two_towers,
    with_hidden_others,
    of_keras,
]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("script", LOCAL, ids=lambda script: script.__name__)
def test_gradients_that_no_rank_has_averaged_are_named(tf: Any, script: Any) -> None:
    (said,) = warned(script, tf)
    assert re.match(
        r"DistributedOptimizer\.apply_gradients got gradients that were never averaged, of "
        r"'kernel'( and 1 more)?: 2 ranks would train 2 different models\. Average them ",
        said,
    )
    assert "training.distributed_gradients(tf.gradients(...))" in said


@pytest.mark.parametrize("script", LOCAL, ids=lambda script: script.__name__)
def test_in_a_job_of_one_rank_there_is_nothing_to_average(tf: Any, script: Any) -> None:
    assert warned(script, tf) == []


@pytest.mark.usefixtures("job")
def test_ranks_that_are_meant_to_be_independent_average_nothing(tf: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("ASCEND_SESSION_INDEPENDENT", "1")
    assert warned(as_they_are, tf) == []


def minimized(tf: Any) -> None:
    net = Net(tf)
    net.optimizer.minimize(net.loss, net.step)


def clipped_after_averaging(tf: Any) -> None:
    net = Net(tf)
    pairs = net.optimizer.compute_gradients(net.loss)
    net.apply(tf.clip_by_global_norm([gradient for gradient, _ in pairs], 1.0)[0])


def averaged_by_hand(tf: Any) -> None:
    net = Net(tf)
    net.apply(tf.clip_by_global_norm(distributed_gradients(net.gradients()), 1.0)[0])


def averaged_in_a_group(tf: Any) -> None:
    net = Net(tf)
    net.apply([hccl.allreduce(gradient, "sum") / 2.0 for gradient in net.gradients()])


def loss_scale(tf: Any) -> None:
    net = Net(tf, loss_scale_manager=ExponentialUpdateLossScaleManager(2.0**32, 1000, 2))
    net.optimizer.minimize(net.loss)


def accumulated(tf: Any) -> None:
    net = Net(tf)
    kept = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in net.variables]
    adds = [each.assign_add(value) for each, value in zip(kept, net.gradients())]
    with tf.control_dependencies(adds):
        means = distributed_gradients([each.read_value() / 4.0 for each in kept])
    net.apply(means)


def accumulated_averages(tf: Any) -> None:
    net = Net(tf)
    pairs = net.optimizer.compute_gradients(net.loss)
    kept = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in net.variables]
    adds = [each.assign_add(value) for each, (value, _) in zip(kept, pairs)]
    with tf.control_dependencies(adds):
        net.apply([each.read_value() / 4.0 for each in kept])


def accumulated_and_local(tf: Any) -> None:
    """What a variable keeps is not known to be local."""
    net = Net(tf)
    kept = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in net.variables]
    net.apply([each.assign_add(value) + 0.0 for each, value in zip(kept, net.gradients())])


def kept_and_regularised(tf: Any) -> None:
    """The part that comes from a loss is the same on all ranks."""
    net = Net(tf)
    kept = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in net.variables]
    decay = net.gradients(tf.add_n([tf.nn.l2_loss(each) for each in net.variables]))
    net.apply([each.read_value() + part for each, part in zip(kept, decay)])


def fed(tf: Any) -> None:
    """Another program averages them."""
    net = Net(tf)
    net.apply([tf.placeholder(tf.float32, each.shape) for each in net.variables])


def constant(tf: Any) -> None:
    """Gradients that are no tensors: TensorFlow takes arrays and variables as well."""
    net = Net(tf)
    array = np.ones(net.kernel.shape, np.float32)
    net.apply([array, tf.get_variable("kept", [3])])


def computed_eagerly(tf: Any) -> None:
    from tensorflow.python.eager import context

    keras = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
    with context.eager_mode():
        weight = tf.Variable([1.0, 2.0], use_resource=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * weight)
        pairs = [(tape.gradient(loss, weight), weight)]
        DistributedOptimizer(keras.SGD(0.5)).apply_gradients(pairs)
        assert weight.numpy().tolist() == [0.0, 0.0]


def averaged_in_python(tf: Any) -> None:
    net = Net(tf)
    means = []
    for gradient in net.gradients():
        means.append(tf.numpy_function(lambda value: value, [gradient], tf.float32))
        means[-1].set_shape(gradient.shape)
    net.apply(means)


def averaged_in_a_condition(tf: Any) -> None:
    net = Net(tf)
    due = tf.equal(net.step % 4, 0)
    means = [
        tf.cond(due, lambda g=g: hccl.allreduce(g, "sum") / 2.0, lambda g=g: tf.zeros_like(g))
        for g in net.gradients()
    ]
    net.apply(means)


def frozen(tf: Any) -> None:
    net = Net(tf)
    variables = [net.bias]
    net.optimizer.minimize(net.loss, net.step, var_list=variables)
    net.optimizer.apply_gradients([(None, net.kernel), *net.optimizer.compute_gradients(net.loss)])


def embedding(tf: Any) -> None:
    net = Net(tf)
    rows = tf.nn.embedding_lookup(net.kernel, tf.placeholder(tf.int32, [None]))
    net.optimizer.minimize(tf.reduce_sum(rows * rows), net.step, var_list=[net.kernel])


def partly_local_on_purpose(tf: Any) -> None:
    """A table of which each rank has a part of its own, and a common layer."""
    net = Net(tf)
    table = tf.get_variable("table", [8, 4])
    loss = net.loss + tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 2]))
    common = net.optimizer.compute_gradients(loss, net.variables)
    net.optimizer.apply_gradients([*common, (tf.gradients(loss, [table])[0], table)])


def gan(tf: Any) -> None:
    net = Net(tf)
    critic = tf.get_variable("critic", [3, 1])
    score = tf.reduce_mean(tf.matmul(net.output, critic))
    penalty = tf.reduce_sum(tf.square(tf.gradients(score, net.output)[0]))
    second = DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1), name="second")
    second.minimize(score + penalty, var_list=[critic])
    net.optimizer.minimize(-score, net.step, var_list=net.variables)


def local_part_with_its_own_optimizer(tf: Any) -> None:
    net = Net(tf)
    head = tf.get_variable("head", [3, 1])
    loss = tf.reduce_sum(tf.matmul(net.output, head))
    net.optimizer.minimize(loss, net.step, var_list=net.variables)
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[head])


HONEST: Dict[str, Any] = {
    each.__name__: each
    for each in (
        minimized,
        clipped_after_averaging,
        averaged_by_hand,
        averaged_in_a_group,
        loss_scale,
        accumulated,
        accumulated_averages,
        accumulated_and_local,
        kept_and_regularised,
        fed,
        constant,
        computed_eagerly,
        averaged_in_python,
        averaged_in_a_condition,
        frozen,
        embedding,
        partly_local_on_purpose,
        gan,
        local_part_with_its_own_optimizer,
    )
}


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("control_flow", ["version 1", "version 2"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_scripts_are_left_alone(tf: Any, name: str, control_flow: str) -> None:
    was_2 = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if control_flow[-1] == "2" else tf.disable_control_flow_v2)()
    try:
        assert warned(HONEST[name], tf) == []
    finally:
        (tf.enable_control_flow_v2 if was_2 else tf.disable_control_flow_v2)()


@pytest.mark.usefixtures("job")
def test_a_gradient_through_a_loop_is_not_known(tf: Any) -> None:
    net = Net(tf)
    state = tf.while_loop(
        lambda n, _: n < 3, lambda n, x: (n + 1, x * net.bias), [tf.constant(0), net.output]
    )[1]
    loss = tf.reduce_sum(state)

    def script(tf: Any) -> None:
        net.apply([tf.gradients(loss, [net.bias])[0]], [net.bias])

    assert warned(script, tf) == []

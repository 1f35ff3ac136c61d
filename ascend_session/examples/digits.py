"""Trains a classifier of handwritten digits on Ascend, or on the CPU where there is no Ascend.

The data are 1,797 real images of 8x8 pixels (the UCI handwritten digits, which scikit-learn
carries); the model is a network of two layers in TensorFlow's graph mode. Run it with
``python -m ascend_session.examples.digits [--epochs N] [--output DIR]``, and copy from it.
"""

import argparse
import os
import random
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ascend_session import AscendConfig, AscendError, MemoryConfig, ascend_session, ascend_system
from ascend_session.examples._arguments import count, directory
from ascend_session.examples._report import Epoch, print_table, require_packages, save_curve

SEED = 20
BATCH = 64  # images in one training step
HELD_OUT = 360  # images that are not trained on, to see what was learned

# What is not said here stays as the vendor has it; `ascend-session options` lists every option.
CONFIG = AscendConfig(
    graph_run_mode=1,  # training, not inference
    precision_mode_v2="mixed_float16",  # half precision where that is safe
    deterministic=1,  # with the seeds below: the same result in every run
    jit_compile="auto",  # operators are compiled where shapes are fixed
    op_compiler_cache_mode="enable",  # and kept for the next run
    memory_config=MemoryConfig(atomic_clean_policy=1),  # save memory
    input_fusion_size=131072,  # inputs of up to so many bytes go to the device together
    hcom_parallel=False,  # True pays for large networks only
    hccl_timeout=1836,  # seconds that devices wait for each other
    op_wait_timeout=120,  # seconds that an operator may wait
    op_execute_timeout=90,  # seconds that an operator may run
    enable_exception_dump=2,  # an operator that fails leaves its data behind
    export_compile_stat=0,  # no statistics files in the current directory
)


class Examples(NamedTuple):
    """Images, each a row of 64 pixels between 0 and 1, and the digits they show."""

    images: Any
    labels: Any


class Model(NamedTuple):
    """A graph, and what to feed and run in it."""

    graph: Any
    images: Any
    labels: Any
    loss: Any
    accuracy: Any
    initialize: Any
    train_step: Any
    saver: Any

    def feed(self, examples: Examples) -> Dict[Any, Any]:
        """The ``feed_dict`` for these examples."""
        return {self.images: examples.images, self.labels: examples.labels}


def load_digits() -> Tuple[Examples, Examples]:
    """Loads the examples to train on and the held-out ones, the same in every run."""
    from sklearn import datasets

    pixels, labels = datasets.load_digits(return_X_y=True)
    order = random.Random(SEED).sample(range(len(labels)), len(labels))
    images, labels = pixels[order] / 16, labels[order]
    training = Examples(images[HELD_OUT:], labels[HELD_OUT:])
    return training, Examples(images[:HELD_OUT], labels[:HELD_OUT])


def build_model(hidden: int = 128, learning_rate: float = 0.01) -> Model:
    """Builds the graph: 64 pixels, a layer of ``hidden`` units, ten digits."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph:
        tf.set_random_seed(SEED)
        images = tf.placeholder(tf.float32, [None, 64], name="images")
        labels = tf.placeholder(tf.int64, [None], name="labels")
        weights_1 = tf.Variable(tf.random.truncated_normal([64, hidden], stddev=0.1, seed=1))
        bias_1 = tf.Variable(tf.zeros([hidden]))
        weights_2 = tf.Variable(tf.random.truncated_normal([hidden, 10], stddev=0.1, seed=2))
        bias_2 = tf.Variable(tf.zeros([10]))

        layer = tf.nn.relu(tf.matmul(images, weights_1) + bias_1)
        logits = tf.matmul(layer, weights_2) + bias_2
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        correct = tf.equal(tf.argmax(logits, 1), labels)
        return Model(
            graph=graph,
            images=images,
            labels=labels,
            loss=loss,
            accuracy=tf.reduce_mean(tf.cast(correct, tf.float32)),
            train_step=tf.train.AdamOptimizer(learning_rate).minimize(loss),
            initialize=tf.global_variables_initializer(),
            saver=tf.train.Saver(),
        )


def batches(examples: Examples, epoch: int) -> Iterator[Examples]:
    """Cuts the examples into batches, in another order for each epoch.

    What does not fill a batch is left out: the device compiles the graph for each batch size.
    """
    size = len(examples.labels)
    order = random.Random(SEED + epoch).sample(range(size), size)
    for start in range(0, size - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield Examples(examples.images[chosen], examples.labels[chosen])


def train(
    model: Model, training: Examples, held_out: Examples, epochs: int, checkpoint: str
) -> List[Epoch]:
    """Trains from the beginning, and saves the variables in files named ``checkpoint``."""
    history = []
    with ascend_session(graph=model.graph) as sess:
        sess.run(model.initialize)
        for epoch in range(1, epochs + 1):
            losses = []
            for batch in batches(training, epoch):
                _, loss = sess.run([model.train_step, model.loss], model.feed(batch))
                losses.append(float(loss))
            training_loss = sum(losses) / len(losses)
            history.append(Epoch(epoch, training_loss, *evaluate(sess, model, held_out)))
        model.saver.save(sess, checkpoint)
    return history


def evaluate(sess: Any, model: Model, examples: Examples) -> Tuple[float, float]:
    """Loss and accuracy on these examples."""
    loss, accuracy = sess.run([model.loss, model.accuracy], model.feed(examples))
    return float(loss), float(accuracy)


def restore(model: Model, held_out: Examples, checkpoint: str) -> float:
    """Accuracy of what was saved as ``checkpoint``, in a session of its own."""
    with ascend_session(graph=model.graph) as sess:
        model.saver.restore(sess, checkpoint)
        _, accuracy = evaluate(sess, model, held_out)
    return accuracy


def main(argv: Sequence[str]) -> None:
    """Trains, saves, restores and reports."""
    arguments = parse(argv)
    require_packages()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

    training, held_out = load_digits()
    checkpoint = str(arguments.output / "model")
    with ascend_system(CONFIG) as system:
        model = build_model()
        history = train(model, training, held_out, arguments.epochs, checkpoint)
        accuracy = restore(model, held_out, checkpoint)

    print_table(history)
    print(f"Restored in a second session: held-out accuracy {accuracy:.3f}")
    print(f"Checkpoint: {checkpoint}")
    print(f"Training curve: {save_curve(history, arguments.output)}")
    print(f"Backend: {system.backend}, because {system.backend_reason}")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m ascend_session.examples.digits",
        description="Train a classifier of handwritten digits, on Ascend or on the CPU.",
    )
    add = parser.add_argument
    add("--epochs", type=count, default=15, metavar="N", help="passes over the data (%(default)s)")
    add(
        "--output",
        type=directory,
        default="digits-output",
        metavar="DIR",
        help="where to put the checkpoint and the training curve (%(default)s)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AscendError as problem:
        sys.exit(str(problem))

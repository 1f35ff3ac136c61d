"""Train a classifier of handwritten digits on Ascend, or on the CPU of a machine without it.

The data are 1,797 real images of 8x8 pixels (the UCI handwritten digits, which scikit-learn
carries); the model is a network of two layers in TensorFlow's graph mode. Run it with
``python -m ascend_session.examples.digits [--epochs N] [--output FOLDER]``, and copy from it.

``ascend-session launch -n 8 -m ascend_session.examples.digits`` trains the same model on eight
ranks. In each step a rank computes the gradients for its share of the images, and all ranks apply
their mean. One process gets the same with ``--batch 512``, eight times the images.

With ``--checkpoint-dir FOLDER`` it resumes from the latest checkpoint in FOLDER, as after a restart
by ``launch --max-restarts 3``, and gets the same weights, bit by bit.
"""

import argparse
import hashlib
import os
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ascend_session import (
    AscendConfig,
    AscendError,
    AscendSystem,
    MemoryConfig,
    ascend_session,
    ascend_system,
    hccl,
    training,
)
from ascend_session.examples._report import Epoch, print_table, require_packages, save

NAME = "ascend_session.examples.digits"
SEED = 20
BATCH = 64  # images in one training step of a rank
HELD_OUT = 360  # images that are not trained on, to measure accuracy

# Options that are left out keep the vendor's defaults; `ascend-session options` lists them all.
CONFIG = AscendConfig(
    graph_run_mode=1,  # training, not inference
    precision_mode="allow_mix_precision",  # half precision where that is safe
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
    export_compile_stat=0,  # no statistics files in the working directory
)


class Examples(NamedTuple):
    """Images, each a row of 64 pixels between 0 and 1, and the digits they show."""

    images: Any
    labels: Any


class Share(NamedTuple):
    """The share of a rank in each step: ``batch`` of ``batch * size`` images."""

    rank: int = 0
    size: int = 1
    batch: int = BATCH


ALONE = Share()


class WeightCheck:
    """Compares the variables of all ranks, and averages their losses.

    Create it when the default graph has all its variables.

    Args:
        size: The number of ranks; a single rank exchanges nothing.
    """

    def __init__(self, size: int) -> None:
        import tensorflow.compat.v1 as tf

        self._variables = tf.global_variables()
        self._loss = tf.placeholder(tf.float32, [1], name="loss_of_rank")
        self._digest = tf.placeholder(tf.int64, [1], name="digest_of_rank")
        self._gathered = [
            hccl.allgather(tensor, size) if size > 1 else tf.identity(tensor)
            for tensor in (self._loss, self._digest)
        ]

    def run(self, sess: Any, loss: float) -> Tuple[float, str]:
        """Compare the variables of all ranks, bit by bit.

        Args:
            sess: The session that has the variables.
            loss: The loss of this rank.

        Returns:
            The mean of the ranks' losses, and the digest of their variables.

        Raises:
            SystemExit: If ranks have other variables than rank 0; names them.
        """
        mine = digest_of(sess.run(self._variables))
        number = int.from_bytes(mine, "big", signed=True)
        feed = {self._loss: [loss], self._digest: [number]}
        losses, digests = sess.run(self._gathered, feed)
        require_equal_weights(digests.tolist())
        return sum(map(float, losses)) / len(losses), mine.hex()


def digest_of(arrays: Sequence[Any]) -> bytes:
    """Return eight bytes that change if a single bit of the arrays does."""
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(array.tobytes())
    return sha256.digest()[:8]


def require_equal_weights(digests: List[int]) -> None:
    """Exit with the ranks whose digest is not that of rank 0, if there are any."""
    others = [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        ranks = "rank" if len(others) == 1 else "ranks"
        raise SystemExit(f"The weights of {ranks} {', '.join(others)} differ from those of rank 0.")


class Model:
    """The graph of a network with 64 pixels, one hidden layer and ten digits.

    Args:
        hidden: Number of units of the hidden layer.
        learning_rate: Learning rate of the optimizer.
        size: Number of ranks.
    """

    def __init__(self, hidden: int = 128, learning_rate: float = 0.02, size: int = 1) -> None:
        import tensorflow.compat.v1 as tf

        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(SEED)
            self.images = tf.placeholder(tf.float32, [None, 64], name="images")
            self.labels = tf.placeholder(tf.int64, [None], name="labels")
            weights_1 = tf.Variable(tf.random.truncated_normal([64, hidden], stddev=0.1, seed=1))
            bias_1 = tf.Variable(tf.zeros([hidden]))
            weights_2 = tf.Variable(tf.random.truncated_normal([hidden, 10], stddev=0.1, seed=2))
            bias_2 = tf.Variable(tf.zeros([10]))

            layer = tf.nn.relu(tf.matmul(self.images, weights_1) + bias_1)
            logits = tf.matmul(layer, weights_2) + bias_2
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=self.labels, logits=logits
            )
            self.loss = tf.reduce_mean(losses)
            correct = tf.equal(tf.argmax(logits, 1), self.labels)
            # In a job of one rank this adds nothing to the graph.
            optimizer = training.DistributedOptimizer(tf.train.AdamOptimizer(learning_rate))
            self.global_step = tf.train.get_or_create_global_step()
            self.train_step = optimizer.minimize(self.loss, self.global_step)
            self.accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
            self.initialize = tf.global_variables_initializer()
            self.broadcast = training.broadcast_global_variables(root_rank=0)
            self.saver = tf.train.Saver()
            self.weight_check = WeightCheck(size)

    def feed(self, examples: Examples) -> Dict[Any, Any]:
        """Return the ``feed_dict`` for these examples."""
        return {self.images: examples.images, self.labels: examples.labels}


def load_digits() -> Tuple[Examples, Examples]:
    """Load the examples to train on and the held-out ones, the same in every run."""
    from sklearn import datasets

    pixels, labels = datasets.load_digits(return_X_y=True)
    order = random.Random(SEED).sample(range(len(labels)), len(labels))
    images, labels = pixels[order] / 16, labels[order]
    examples = Examples(images[HELD_OUT:], labels[HELD_OUT:])
    return examples, Examples(images[:HELD_OUT], labels[:HELD_OUT])


def batches(examples: Examples, epoch: int, share: Share = ALONE) -> Iterator[Examples]:
    """Yield a rank's share of each batch, in another order for each epoch.

    Examples that do not fill a batch of all ranks are left out, because the device compiles the
    graph for each batch size, and all ranks must make equally many steps. With ``tf.data``, and a
    dataset in the same order on all ranks, write
    ``dataset.take(steps * batch * size).shard(size, rank).batch(batch)``.
    """
    number = len(examples.labels)
    order = random.Random(SEED + epoch).sample(range(number), number)
    step = share.batch * share.size
    for start in range(0, number - step + 1, step):
        chosen = order[start : start + step][share.rank :: share.size]
        yield Examples(examples.images[chosen], examples.labels[chosen])


def train(
    system: AscendSystem,
    model: Model,
    examples: Examples,
    held_out: Examples,
    arguments: argparse.Namespace,
) -> Tuple[List[Epoch], str]:
    """Train from the beginning, or from the latest checkpoint; rank 0 saves the variables.

    The number of a step determines its images, so that resumed training goes on with the next ones.

    Returns:
        The epochs that were trained now, and the digest of the weights.
    """
    share = Share(system.rank, system.size, arguments.batch)
    steps = len(examples.labels) // (share.batch * share.size)  # in an epoch
    path = str(arguments.output / "model")
    history = []
    with model.graph.as_default(), training_session(system, arguments) as sess:
        done = int(sess.run(model.global_step))
        for epoch in range(done // steps + 1, arguments.epochs + 1):
            losses = []
            for batch in islice(batches(examples, epoch, share), done % steps, None):
                _, loss = sess.run([model.train_step, model.loss], model.feed(batch))
                losses.append(float(loss))
            done = 0  # steps of the next epochs
            mean, weights = model.weight_check.run(sess, sum(losses) / len(losses))
            history.append(Epoch(epoch, mean, *evaluate(sess, model, held_out), weights))
        _, weights = model.weight_check.run(sess, 0.0)
        if share.rank == 0:
            sess.run_step_fn(lambda step_context: model.saver.save(step_context.session, path))
    return history, weights


def training_session(system: AscendSystem, arguments: argparse.Namespace) -> Any:
    """Open a session in which rank 0 writes checkpoints, and all begin with its variables."""
    folder = arguments.checkpoint_dir
    return training.monitored_session(
        system,
        folder,
        [] if folder is None else [training.SaveOnPreemptionHook(str(folder))],
        save_checkpoint_steps=arguments.checkpoint_steps,
        save_summaries_steps=None,
        log_step_count_steps=None,
    )


def evaluate(sess: Any, model: Model, examples: Examples) -> Tuple[float, float]:
    """Return loss and accuracy on these examples."""
    loss, accuracy = sess.run([model.loss, model.accuracy], model.feed(examples))
    return float(loss), float(accuracy)


def restore(model: Model, held_out: Examples, checkpoint: str, rank: int = 0) -> float:
    """Return the accuracy of the variables in ``checkpoint``, restored in a new session.

    Only rank 0 reads the files, which other machines may not have.
    """
    with ascend_session(graph=model.graph) as sess:
        sess.run(model.initialize)
        if rank == 0:
            model.saver.restore(sess, checkpoint)
        sess.run(model.broadcast)
        _, accuracy = evaluate(sess, model, held_out)
    return accuracy


def main(argv: Sequence[str]) -> None:
    """Train, save, restore and report."""
    arguments = parse(argv)
    require_packages()
    # TensorFlow reads these at its import: print only errors, and use its own operators.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    examples, held_out = load_digits()
    checkpoint = str(arguments.output / "model")
    with ascend_system(CONFIG) as system:
        import tensorflow.compat.v1 as tf

        tf.logging.set_verbosity(tf.logging.ERROR)
        share = Share(system.rank, system.size, arguments.batch)
        check_share(share, len(examples.labels))
        model = Model(size=system.size)
        history, weights = train(system, model, examples, held_out, arguments)
        accuracy = restore(model, held_out, checkpoint, system.rank)

    if share.size > 1:
        print(
            f"Rank {share.rank} of {share.size}: weights {weights}, the same on all ranks in "
            f"{len(history)} epochs"
        )
    if share.rank == 0:
        if not history:
            print(f"Nothing is left to train: {arguments.checkpoint_dir} has all epochs.")
        elif not arguments.brief:
            print_table(history)
        print(f"Restored in a second session: held-out accuracy {accuracy:.3f}")
        print(f"Checkpoint: {checkpoint}")
        if history:  # else keep the curve of the earlier epochs
            print(f"Training curve: {save(history, arguments.output)}")
        if not arguments.brief:
            print(f"Backend: {system.backend}, because {system.backend_reason}")


def positive_int(text: str) -> int:
    """Convert an argument to an int of 1 or more."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more.")
    return int(text)


def writable_folder(text: str) -> Path:
    """Convert an argument to the path of a writable folder, which is created if needed."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the folder {text!r} cannot be created: {error.strerror}."
        raise argparse.ArgumentTypeError(message) from error
    if not os.access(text, os.W_OK):
        raise argparse.ArgumentTypeError(f"you may not write into the folder {text!r}.")
    return path.resolve()


def check_share(share: Share, number: int) -> None:
    """Exit if ``number`` examples are not enough for a single step."""
    step = share.batch * share.size
    if step > number:
        whose = "" if share.size == 1 else f" on each of {share.size} ranks"
        raise SystemExit(
            f"--batch {share.batch}{whose} makes {step} images, but there are {number}."
        )


def parse(
    argv: Sequence[str], program: str = f"python -m {NAME}", epochs: int = 15
) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Train a classifier of handwritten digits, on Ascend or on the CPU.",
    )
    add = parser.add_argument
    add(
        "--epochs",
        type=positive_int,
        default=epochs,
        metavar="N",
        help="passes over the data (%(default)s)",
    )
    add(
        "--batch",
        type=positive_int,
        default=BATCH,
        metavar="N",
        help="images in one step of a rank (%(default)s)",
    )
    add(
        "--output",
        type=writable_folder,
        default="digits-output",
        metavar="FOLDER",
        help="folder for the checkpoint and the training curve (%(default)s)",
    )
    add(
        "--checkpoint-dir",
        type=writable_folder,
        metavar="FOLDER",
        help="resume from the latest checkpoint in FOLDER, and write checkpoints there",
    )
    add(
        "--checkpoint-steps",
        type=positive_int,
        default=20,
        metavar="N",
        help="steps between checkpoints (%(default)s)",
    )
    add("--brief", action="store_true", help="print neither a table nor the backend")
    return parser.parse_args(argv)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AscendError as problem:
        sys.exit(str(problem))

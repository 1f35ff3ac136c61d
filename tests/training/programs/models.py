"""Small models and their data, the same for a job and for one process."""

import hashlib
from typing import Any, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

__all__ = ["BATCH", "STEPS", "batches", "digest", "embedding_model", "keras_model"]

BATCH, STEPS = 4, 6

_WORDS, _WIDTH = 10, 3


class Model(NamedTuple):
    """What is fed, and what is looked at."""

    ids: Any
    goals: Any
    loss: Any
    variables: List[Any]


def embedding_model(tf: Any, seed: int) -> Model:
    """An embedding, whose gradients are IndexedSlices, and a dense layer."""
    chance = np.random.RandomState(seed)
    ids = tf.placeholder(tf.int32, [None, 2])
    goals = tf.placeholder(tf.float32, [None, 1])
    made = [
        tf.get_variable(name, initializer=chance.rand(*shape).astype(np.float32), use_resource=True)
        for name, shape in (("table", (_WORDS, _WIDTH)), ("dense", (2 * _WIDTH, 1)), ("bias", (1,)))
    ]
    rows = tf.reshape(tf.nn.embedding_lookup(made[0], ids), [-1, 2 * _WIDTH])
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, made[1]) + made[2] - goals))
    return Model(ids, goals, loss, made)


def batches(size: int) -> Iterator[Tuple[Any, Any]]:
    """Whole batches for so many ranks, of which each takes its rows."""
    chance = np.random.RandomState(7)
    for _ in range(STEPS):
        ids = chance.randint(0, _WORDS, [size * BATCH, 2])
        yield ids, (ids.sum(1, keepdims=True) / 10.0).astype(np.float32)


def keras_model(tf: Any, optimizer: Any, seed: int) -> Any:
    """The same for Keras."""
    keras = tf.keras
    start = keras.initializers.RandomUniform(seed=seed)
    model = keras.models.Sequential(
        [
            keras.layers.Embedding(_WORDS, _WIDTH, input_length=2, embeddings_initializer=start),
            keras.layers.Flatten(),
            keras.layers.Dense(1, kernel_initializer=start),
        ]
    )
    model.compile(loss="mse", optimizer=optimizer)
    return model


def digest(arrays: Sequence[Any]) -> str:
    """A text that is equal for arrays whose bits are."""
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
    ).hexdigest()

"""Operators on indices: which elements are not zero, random ones of them, scattering, clusters.

Sources: npu_aicore_ops.py, npu_cpu_ops.py, npu_ops.py; CANN's specifications of NonZero,
NonZeroWithValue, RandomChoiceWithMask and KMeansCentroids; that ``transpose`` of NonZero gives a
row for each dimension is how CANN reads ONNX's NonZero.
"""

from typing import Any, List

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.kernels._tensors import checked
from ascend_session.compat.refusing import refuse

__all__ = [
    "k_means_centroids",
    "non_zero",
    "non_zero_with_value",
    "random_choice_with_mask",
    "scatter_elements",
]


def non_zero(x: Any, transpose: bool = False, output_type: Any = None, name: Any = None) -> Any:
    """The indices of what is not zero, in row-major order.

    Args:
        x: Numbers.
        transpose: A row for each dimension ``[rank, n]``; else one for each element ``[n, rank]``.
        output_type: int64 if None, or int32.
        name: Of the operator.
    """
    tf = tf1()
    x = tf.convert_to_tensor(x, name="x")
    with tf.name_scope(name or "NonZero"):
        found = tf.cast(tf.where(tf.not_equal(x, tf.zeros_like(x))), _index_type(output_type))
        return tf.transpose(found) if transpose else found


def non_zero_with_value(
    x: Any, transpose: bool = False, output_type: Any = None, name: Any = None
) -> List[Any]:
    """What is not zero in a matrix: values, indices and how many, in tensors of full length.

    Args:
        x: A matrix.
        transpose: True: first all rows, then all columns. The device takes nothing else.
        output_type: int64 if None, or int32.
        name: Of the operator.

    Returns:
        ``value [rows * columns]``, of which the first ``count`` mean something; ``index
        [2 * rows * columns]``, row numbers from 0, column numbers from ``rows * columns`` on;
        ``count [1]``. The rest is 0 here; a device leaves in it what was there.
    """
    tf = tf1()
    if not transpose:
        raise refuse(
            "npu_bridge.estimator.npu_aicore_ops.nonzerowithvalue",
            "how it lays out indices without transpose=True is not public",
            hint="Say transpose=True, or use tf.where and tf.gather_nd.",
        )
    x = tf.convert_to_tensor(x, name="x")
    if x.shape.rank not in (None, 2):
        raise ValueError(f"Shape must be rank 2 but is rank {x.shape.rank} for 'NonZeroWithValue'.")
    dtype = _index_type(output_type)
    with tf.name_scope(name or "NonZeroWithValue"):
        places = tf.where(tf.not_equal(x, tf.zeros_like(x)))
        size, count = tf.size(x), tf.shape(places)[0]
        rest = [[0, size - count]]
        value = tf.pad(tf.gather_nd(x, places), rest)
        rows, columns = (tf.pad(tf.cast(places[:, axis], dtype), rest) for axis in (0, 1))
        return [value, tf.concat([rows, columns], axis=0), tf.cast([count], dtype)]


def _index_type(output_type: Any) -> Any:
    tf = tf1()
    dtype = tf.int64 if output_type is None else tf.as_dtype(output_type)
    if dtype not in (tf.int32, tf.int64):
        raise TypeError(
            f"Value passed to parameter 'output_type' has DataType {dtype.name} not in list of "
            "allowed values: int32, int64"
        )
    return dtype


def random_choice_with_mask(
    x: Any, count: int = 0, seed: int = 0, seed2: int = 0, name: Any = None
) -> List[Any]:
    """The indices of what is True, shuffled, and which of them mean something.

    Args:
        x: bool, of 5 dimensions at most.
        count: How many rows to give; all there are if 0.
        seed: With ``seed2`` not both 0: the same choice in each run.
        seed2: See ``seed``.
        name: Of the operator.

    Returns:
        ``y`` int32 ``[count, rank]``, 0 where there are not enough; ``mask`` bool ``[count]``.
    """
    tf = tf1()
    if count < 0:
        raise ValueError(f"input count must greater or equal to 0 but instead is {count}")
    x = checked("RandomChoiceWithMask", "x", x, ("bool",))
    one_seed = None if (seed, seed2) == (0, 0) else (seed * 1000003 + seed2) % (2**31 - 1)
    with tf.name_scope(name or "RandomChoiceWithMask"):
        found = tf.random.shuffle(tf.cast(tf.where(x), tf.int32), seed=one_seed)
        there = tf.ones([tf.shape(found)[0]], tf.bool)
        if count == 0:
            return [found, there]
        found, there = found[:count], there[:count]
        rest = [0, count - tf.shape(found)[0]]
        y = tf.reshape(tf.pad(found, [rest, [0, 0]]), [count, x.shape.rank or -1])
        return [y, tf.reshape(tf.pad(there, [rest]), [count])]


def scatter_elements(data: Any, indices: Any, updates: Any, axis: int = 0, name: Any = None) -> Any:
    """``data`` with ``updates`` put where ``indices`` say along ``axis``, as ONNX has it.

    Args:
        data: Numbers.
        indices: int32 or int64, of the shape of ``updates``; negative ones count from the end.
        updates: Of the type of ``data``. What is put twice to one place ends as either.
        axis: Along which the indices count; the other coordinates are the update's own.
        name: Of the operator.
    """
    tf = tf1()
    data = tf.convert_to_tensor(data, name="data")
    updates = tf.convert_to_tensor(updates, name="updates")
    indices = checked("ScatterElements", "indices", indices, ("int32", "int64"))
    rank = data.shape.rank
    own = axis + rank if axis < 0 else axis
    with tf.name_scope(name or "ScatterElements"):
        shape = tf.shape(indices, out_type=indices.dtype)
        length = tf.shape(data, out_type=indices.dtype)[own]
        along = tf.where(indices < 0, indices + length, indices)
        ranges = [tf.range(shape[which]) for which in range(rank)]
        grid = tf.meshgrid(*ranges, indexing="ij")
        grid[own] = along
        places = tf.stack(grid, axis=-1)
        return tf.tensor_scatter_update(data, places, updates)


def k_means_centroids(
    x: Any, y: Any, sum_square_y: Any, sum_square_x: Any = None, name: Any = None
) -> List[Any]:
    """One step of k-means: each sample goes to the nearest centre.

    Args:
        x: Samples, float32 ``[m, d]``.
        y: Centres, float32 ``[n, d]``.
        sum_square_y: Their squared lengths, float32 ``[1, n]``.
        sum_square_x: The samples', ``[m, 1]``; without them the distances lack them.
        name: Of the operator.

    Returns:
        The sums of each centre's samples ``[n, d]``, their numbers ``[n, 1]``, and the sum of all
        distances ``[1]``.
    """
    tf = tf1()
    operator = "KMeansCentroids" if sum_square_x is not None else "KMeansCentroidsV2"
    x, y, sum_square_y = (
        checked(operator, which, value, ("float32",))
        for which, value in (("x", x), ("y", y), ("sum_square_y", sum_square_y))
    )
    with tf.name_scope(name or operator):
        distances = tf.reshape(sum_square_y, [1, -1]) - 2.0 * tf.matmul(x, y, transpose_b=True)
        if sum_square_x is not None:
            distances += tf.reshape(
                checked(operator, "sum_square_x", sum_square_x, ("float32",)), [-1, 1]
            )
        chosen = tf.one_hot(tf.argmin(distances, axis=1), tf.shape(y)[0], dtype=tf.float32)
        total = tf.reshape(tf.reduce_sum(tf.reduce_min(distances, axis=1)), [1])
        counts = tf.reduce_sum(chosen, axis=0)[:, tf.newaxis]
        return [tf.matmul(chosen, x, transpose_a=True), counts, total]

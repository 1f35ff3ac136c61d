"""Arrays travel as words, bit by bit the same."""

from typing import Any, List

import numpy as np
import pytest

from ascend_session.backends.ranks.words import from_words, in_words, to_words

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "float16", "int32", "float32", "float64"]
SHAPES = [(), (0,), (1,), (3,), (2, 3), (0, 4), (5, 1, 2)]


def bits(array: Any) -> bytes:
    return bytes(np.ascontiguousarray(array).tobytes())


def some(dtype: str, shape: Any) -> Any:
    """Bytes in any order, among them NaNs of several kinds."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    data = np.random.RandomState(count).randint(0, 256, count).astype(np.uint8)
    return data.view(dtype).reshape(shape) if dtype != "bool" else (data > 99).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_arrives_is_what_was_sent(dtype: str) -> None:
    arrays: List[Any] = [some(dtype, shape) for shape in SHAPES]
    forms = [(array.dtype, array.shape) for array in arrays]
    words = to_words(arrays)
    assert words.dtype == np.int32
    assert len(words) == in_words(forms)
    for sent, arrived in zip(arrays, from_words(words, forms)):
        assert (arrived.dtype, arrived.shape) == (sent.dtype, sent.shape)
        assert bits(arrived) == bits(sent)


def test_arrays_of_several_types_travel_together() -> None:
    arrays = [some("int8", (3,)), some("float64", (2,)), some("bool", (5,))]
    forms = [(array.dtype, array.shape) for array in arrays]
    found = from_words(to_words(arrays), forms)
    assert [bits(array) for array in found] == [bits(array) for array in arrays]


def test_what_is_not_in_one_piece_is_sent_as_it_looks() -> None:
    whole = np.arange(12, dtype=np.int32).reshape(3, 4)
    (found,) = from_words(to_words([whole.T]), [(whole.dtype, (4, 3))])
    assert (found == whole.T).all()


def test_words_are_filled_up_to_the_length_asked_for() -> None:
    words = to_words([np.array([7], np.int32)], 4)
    assert words.tolist() == [7, 0, 0, 0]
    assert from_words(words, [(np.dtype(np.int32), (1,))])[0].tolist() == [7]

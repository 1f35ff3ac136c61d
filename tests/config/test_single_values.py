"""Options whose value is a size or a path."""

import pathlib
import re

import pytest

from tests.config.written import memory_size, path_text


def refusal(function, value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        function(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (26 * 2**30, str(26 * 2**30)), ("33285996544", "33285996544")]
)
def test_memory_sizes_become_digits(value, text):
    assert memory_size(value) == text


@pytest.mark.parametrize("value", [0, -1, "0", "", "1GB", "16 * 1024", "1.5", "9" * 5000, "5\n"])
def test_memory_sizes_need_a_number_of_bytes_above_zero(value):
    assert "a number of bytes above 0 is needed, in digits only" in refusal(memory_size, value)


@pytest.mark.parametrize("value", [True, 1.5, [1], b"1"])
def test_memory_sizes_of_another_type_are_refused(value):
    assert re.search("accepted forms|it is bytes", refusal(memory_size, value))


@pytest.mark.parametrize("text", ["dump", "/home/test/output", "./a b", "ä", "{DIR}/file.cfg"])
def test_paths_are_returned_as_text(text):
    assert path_text(text) == text
    assert path_text(pathlib.PurePosixPath(text)) == str(pathlib.PurePosixPath(text))


class _BytesPath:
    def __fspath__(self):
        return b"dump"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it is empty"),
        ("a\0b", "a path has no NUL character in it"),
        (b"dump", "b'dump' cannot be used: it is bytes and text is needed, so decode it first"),
        (_BytesPath(), "b'dump' cannot be used: it is bytes"),
        (3, "a value of type int is not among the accepted forms (text, os.PathLike)"),
    ],
)
def test_wrong_paths_are_refused(value, said):
    assert said in refusal(path_text, value)

"""What all grammars share: numbers in ASCII, what is a list, and the sentence of a refusal."""

import pytest

from tests.config.written import comma_names, dump_step, local_device_list, memory_size, path_text


def refusal(function, value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        function(value)
    return str(caught.value)


@pytest.mark.parametrize("text", ["0", "9", "007", "2147483647"])
def test_numbers_are_ascii_digits_within_the_limits(text):
    assert dump_step(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("2147483648", "", "-1", "+1", "5\n", " 5", "5 ", "\u0665", "\uff15", "\u00b2", "5.0"),
        *("1_0", "0x5", "9" * 5000),
    ],
)
def test_nothing_is_a_number_that_only_python_reads_as_one(text):
    assert refusal(dump_step, text)


def test_a_bool_is_no_whole_number():
    assert memory_size(1) == "1"
    assert "a value of type bool" in refusal(memory_size, True)
    assert "a value of type bool" in refusal(dump_step, True)


@pytest.mark.parametrize("value", [[0, 1], (0, 1), range(2)])
def test_lists_tuples_and_ranges_are_lists(value):
    assert local_device_list(value) == "0,1"


@pytest.mark.parametrize("value", [b"01", bytearray(b"01"), {0: 1}, {0, 1}])
def test_bytes_mappings_and_sets_are_none(value):
    assert refusal(local_device_list, value)


@pytest.mark.parametrize("name", [" ab", "a\tb", "ab\n", "a\u00a0b"])
def test_blanks_are_found_wherever_they_stand(name):
    assert comma_names(["ab"]) == "ab"
    assert "has a blank or a comma in it" in refusal(comma_names, [name])


def test_a_refusal_quotes_the_value_and_shows_a_right_one():
    assert refusal(memory_size, "1GB") == (
        "graph_memory_max_size: '1GB' cannot be used: a number of bytes above 0 is needed, in "
        "digits only; write for example '1073741824'."
    )


def test_a_long_value_is_shortened_in_the_middle():
    text = "a" * 80 + "b" * 80
    shown = repr(text)[:70] + "..." + repr(text)[-20:]
    assert refusal(dump_step, text).startswith(f"dump_step: {shown} cannot")


def test_bytes_get_the_advice_to_decode_them():
    assert "decode it first" in refusal(dump_step, b"0|5")


def test_a_wrong_type_is_named_with_the_accepted_forms():
    assert refusal(path_text, 1.5) == (
        "debug_dir: 1.5 cannot be used: a value of type float is not among the accepted forms "
        "(text, os.PathLike); write for example 'dump/step0'."
    )

"""The mix list as GE's parser takes it: strict JSON, and eleven allowed changes of an operator."""

import contextlib
import itertools
import json
import pickle
import random
import re
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import MixList
from ascend_session.option_files.mixlist import read_built_in_lists

FIELDS = ["black_add", "black_remove", "white_add", "white_remove", "gray_add", "gray_remove"]
# The bits that GE's parser uses, and its table of what may stand together
BITS = dict(zip(FIELDS, (16, 32, 4, 8, 1, 2)))
ALLOWED = {32, 8, 1, 1 | 32, 1 | 8, 4, 4 | 2, 4 | 32, 16, 16 | 2, 16 | 8}

# The manual, NPURunConfig Options, to the letter
SAMPLE = """\
{
"black-list": { // Blocklist
"to-remove": [ // Move an operator from the blocklist to the graylist.
"Xlog1py"
],
"to-add": [ // Move an operator from the trustlist or graylist to the blocklist.
"Matmul",
"Cast"
]
},
"white-list": { // Trustlist
"to-remove": [ // Move an operator from the trustlist to the graylist.
"Conv2D"
],
"to-add": [ // Move an operator from the blocklist or graylist to the trustlist.
"Bias"
]
}
}
"""
MEANT = MixList(
    black_add=("Matmul", "Cast"),
    black_remove=("Xlog1py",),
    white_add=("Bias",),
    white_remove=("Conv2D",),
)


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        MixList.parse(content, "mix.json")
    return str(caught.value)


def remarks(content: Any) -> List[str]:
    return [str(remark) for remark in MixList.check_text(content)]


def test_the_documented_sample_is_refused_for_its_comments_in_its_own_words() -> None:
    message = refusal(SAMPLE)
    assert "mix.json:2:17: JSON has no comments, so GE refuses" in message
    assert message.endswith("hint: Remove the comments.")


def test_the_documented_sample_without_its_comments_is_read() -> None:
    content = re.sub("//.*", "", SAMPLE)
    assert MixList.parse(content) == MEANT
    assert MixList.check_text(content) == ()


def test_what_may_stand_together_is_what_ges_table_says() -> None:
    for size in range(1, 7):
        for fields in itertools.combinations(FIELDS, size):
            given = dict.fromkeys(fields, ("Relu",))
            if sum(BITS[field] for field in fields) in ALLOWED:
                made = MixList(**given)
                assert MixList.parse(made.text()) == made
            else:
                with pytest.raises(ConfigError, match=r"GE refuses .* for 'Relu'"):
                    MixList(**given)


def test_changes_that_exclude_each_other_are_refused_with_their_place() -> None:
    message = refusal('{"white-list": {"to-add": ["A", "Cast"]},\n "black-list": '
                      '{"to-add": ["Cast"]}}')  # fmt: skip
    assert "mix.json:2:28: GE refuses to-add of black-list and to-add of white-list" in message
    assert "to-remove of another" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "mix.json:1:1: The file is empty."),
        (" \n", "The file is empty."),
        ("[]", "The top level is an object, not an array."),
        ("null", "The top level is an object, not null."),
        ('{"grey-list": {}}', "1:2: GE knows no key 'grey-list' here."),
        ('{"gray-list": []}', "1:15: gray-list is an object, not an array."),
        ('{"gray-list": {"add": []}}', "The keys are to-add and to-remove."),
        ('{"gray-list": {"to-add": "A"}}', "to-add is an array, not text."),
        ('{"gray-list": {"to-add": [1]}}', "An operator type is text, not a number."),
        ('{"gray-list": {"to-add": [true]}}', "not true or false."),
        ('{"black-list": {"to-add": ["A",]}}', "1:31: Trailing comma before ']'"),
        ('{"black-list": {},}', "Trailing comma before '}'"),
        ('{"black-list": {"to-add": ["A"', "1:31: The file ends where ',' or ']' is needed."),
        ('{"black-list": {"to-add": ["A', "1:28: The file ends inside this text."),
        ("{'black-list': {}}", "a key in double quotes is needed"),
        ('{"black-list" {}}', "':' is needed, not '{}}'"),
        ('{"black-list": 1e999}', "This number is too large."),
        ('{"black-list": 1.}', "a value is needed, not '1.}'"),
        ('{"black-list": NaN}', "a value is needed, not 'NaN}'"),
        ('{"black-list": {"to-add": ["\\ud800"]}}', "half a surrogate pair"),
        ('{"black-list": {"to-add": ["a\tb"]}}', "This is not JSON: Invalid control character"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"black-list": {"to-add": ["\xe9"]}}', "mix.json:1:29: This is not UTF-8 text"),
    ],
)
def test_what_ge_refuses_is_refused_with_its_place(content: Any, expected: str) -> None:
    assert expected in refusal(content)


def test_all_faults_are_told_at_once() -> None:
    message = refusal('{"a": {}, "black-list": {"b": []}}')
    assert "2 problems in mix.json" in message


def test_a_byte_order_mark_and_carriage_returns_do_no_harm() -> None:
    made = MixList.parse('\ufeff{"black-list":\r\n{"to-add": ["A"]}}\r\n')
    assert made == MixList(black_add=("A",))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"gray-list": {"to-add": ["A"]}}', "to-add of gray-list alone moves no operator."),
        ('{"black-list": {"to-add": ["A", "A"]}}', "1:33: 'A' is already in this list."),
        ('{"black-list": {"to-add": ["A "]}}', "'A ' is not the type of any operator"),
        ('{"black-list": {"to-add": ["net/A"]}}', "'net/A' is not the type of any operator"),
        ('{"black-list": {}, "black-list": {"to-add": ["A"]}}', "only this one counts"),
        ('{} {"black-list": 1}', "which is never read"),
    ],
)
def test_what_does_nothing_is_told(content: str, expected: str) -> None:
    (found,) = remarks(content)
    assert expected in found
    MixList.parse(content)


def test_of_a_key_that_stands_twice_the_last_counts() -> None:
    content = '{"black-list": {"to-add": [1]}, "black-list": {"to-add": ["B"]}}'
    assert MixList.parse(content) == MixList(black_add=("B",))


def test_what_is_written_is_read_back_and_is_strict_json() -> None:
    rng = random.Random(3)
    sets = [[name for name in FIELDS if bits & BITS[name]] for bits in ALLOWED]
    letters = 'Aä"\\/\x00\u2028\U0001f600\n'
    for _ in range(500):
        given: Dict[str, List[str]] = {field: [] for field in FIELDS}
        names = {"".join(rng.choice(letters) for _ in range(rng.randrange(5))) for _ in range(6)}
        for operator in names:
            for field in rng.choice(sets):
                given[field].append(operator)
        made = MixList(**{field: tuple(found) for field, found in given.items()})
        assert MixList.parse(made.text()) == made
        assert pickle.loads(pickle.dumps(made)) == made
        for name, below in json.loads(made.text()).items():
            for update, operators in below.items():
                assert operators == given[f"{name[:-5]}_{update[3:]}"]


def test_no_bytes_whatever_crash_the_reader() -> None:
    rng = random.Random(4)
    words = [b'"black-list"', b'"to-add"', b'"A"', b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n"]
    words += [b"1", b"//x\n", b"/*", b"\xff", b"\\u12", b'"', b"null", b"\xef\xbb\xbf", b"\x00"]
    for _ in range(3000):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(25)))
        for read in (MixList.parse, MixList.check_text):
            with contextlib.suppress(ConfigError):
                read(content)
    assert MixList.parse(b"{}") == MixList()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="black_add is a list of operator types"):
        MixList(black_add="Relu")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="half a surrogate pair"):
        MixList(black_add=("\ud800",))
    assert MixList(black_add=("A", "A")) == MixList(black_add=["A"])  # type: ignore[arg-type]


def test_a_list_is_held_against_the_toolkits(tmp_path: Path) -> None:
    path = tmp_path / "aic-ascend910-ops-info.json"
    path.write_text(
        '{"Conv2D": {"precision_reduce": {"flag": "true"}}, "Cast": {"precision_reduce": '
        '{"flag": "false"}}, "Bias": {}, "Xlog1py": {"precision_reduce": {"flag": "false"}}}'
    )
    lists = read_built_in_lists(path)
    assert lists == {
        "Conv2D": "white-list",
        "Cast": "black-list",
        "Bias": "gray-list",
        "Xlog1py": "black-list",
    }
    assert MEANT.against(lists) == (
        "Matmul: this toolkit has no such operator.",
        "Cast: is to be added to black-list, where it is already.",
    )
    lists["Xlog1py"] = "gray-list"
    assert "Xlog1py: is to be removed from black-list, but is in gray-list." in MEANT.against(lists)
    for wrong in ("[]", "{"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match=r"not a JSON object of operators|is not JSON"):
            read_built_in_lists(path)

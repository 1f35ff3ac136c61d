"""Reading results: no bytes make it fail in any other way than its own."""

import contextlib
import json
import random
from time import process_time

import pytest

from ascend_session.errors import ResultError
from tests.aoe.samples import OLD_TASK, OPERATOR_TASK, SUBGRAPH_TASK, content, many, operator, task

WHOLE = content(OPERATOR_TASK, SUBGRAPH_TASK, indent=None)
SECOND = WHOLE.index(b'"report_', 10)


def test_cut_at_any_byte_whole_tasks_are_given_and_the_rest_is_said_to_be_missing(
    parse,
) -> None:
    whole = parse(WHOLE).tasks
    for end in range(1, len(WHOLE) - 1):
        found = parse(WHOLE[:end])
        count = (end >= SECOND - 2) + (end >= len(WHOLE) - 3)
        assert found.tasks == whole[:count], end
        damage = found.damage
        assert "missing. Before it: " in damage.message, end
        shown = WHOLE[:end].decode().split("\n")
        assert damage.place[:2] <= (len(shown), len(shown[-1]) + 1)
    assert parse(WHOLE[:-1]).damage is None


def test_cut_in_the_middle_of_a_letter_it_is_still_the_first_half(parse) -> None:
    whole = content(OPERATOR_TASK, task(operator("调优", 2.0, 1.0))).decode()
    whole = whole.encode().decode("unicode_escape").encode()
    at = whole.index("优".encode())
    for end in (at + 1, at + 2):
        found = parse(whole[:end])
        assert len(found.tasks) == 1
        assert "missing" in found.damage.message


def changed(sample: bytes, dice: random.Random) -> bytes:
    made = bytearray(sample)
    for _ in range(dice.choice([1, 1, 2, 5, 50])):
        at, length = dice.randrange(len(made)), dice.randrange(1, 200)
        kind = dice.random()
        if kind < 0.4:
            made[at] = dice.randrange(256)
        elif kind < 0.7 and len(made) > length:
            del made[at : at + length]
        else:
            other = dice.randrange(len(made))
            made[at:at] = made[other : other + length]
    return bytes(made)


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_make_it_fail_but_in_its_own_way(parse, seed: int) -> None:
    dice = random.Random(seed)
    samples = [WHOLE, json.dumps(OLD_TASK).encode(), bytes(dice.randrange(256) for _ in range(99))]
    read = 0
    for _ in range(400):
        with contextlib.suppress(ResultError):
            found = parse(changed(dice.choice(samples), dice))
            read += len(found.tasks)
            assert found.damage is None or found.damage.place[:2] >= (1, 1)
    assert read


def test_ten_thousand_operators_are_read_in_a_fraction_of_a_second(parse) -> None:
    written = content(many(10_000), indent=None)
    begin = process_time()
    found = parse(written)
    assert process_time() - begin < 20  # a quarter of a second, where nothing else runs
    assert len(found.tasks[0].tunings[0].operators) == 10_000
    assert found.damage is None

"""The contract of collectives on the stub, with two ranks, three, five and eight.

Three and five are no power of two, and none divides another; eight are more than the processors.
Two are started as a user's are, more are forked. By day three and five do what such a number makes
different: parts are ragged, some rank is the root, and the groups are of two sizes.
"""

from typing import Any

import pytest

from hardware_tests.collective_answers import Answers, answers_of
from hardware_tests.collective_contract import CollectiveContract, sections_asked_for


@pytest.fixture(scope="class")
def answers(request: Any, tmp_path_factory: Any) -> Answers:
    """What so many ranks said as the class has."""
    ranks, sections = request.cls.ranks, sections_asked_for(request)
    python = request.getfixturevalue("forking_python") if ranks > 2 else None
    folder = tmp_path_factory.mktemp("job")
    return answers_of("stub", ranks, sections, folder, stall_timeout=120, python=python)


UNEVEN = ("float32", "group")
FEW = ("int32", "int64", "float16", "float32")  # with two ranks all are done


class TestTwo(CollectiveContract):
    ranks = 2


class TestThree(CollectiveContract):
    ranks = 3
    types = FEW
    by_day = UNEVEN


class TestFive(CollectiveContract):
    ranks = 5
    types = FEW
    by_day = UNEVEN


class TestEight(CollectiveContract):
    ranks = 8
    types = (*FEW, "bfloat16")

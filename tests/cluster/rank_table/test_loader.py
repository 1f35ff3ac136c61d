"""Our rules against the loader's own steps: what it refuses is a problem, and little else is."""

import copy
import json
import random
import re

import pytest

from ascend_session import JobError, RankTable
from tests.cluster.rank_table.loader import A2, A3, DUO, TRAINING, RefusedError, load
from tests.cluster.rank_table.tables import v1_0, v1_2
from tests.cluster.rank_table.test_properties import mutate

PRODUCTS = [TRAINING, A2, A3, DUO]
DRAWS = 100

# Where we say more than the loader, and why.
STRICTER = re.compile("device_ip: is")  # a job of several servers does not come up without them


def refused_by_loader(table, product):
    try:
        load(copy.deepcopy(table), product)
    except RefusedError as error:
        return str(error)
    return None


def our_errors(table, product):
    try:
        read = RankTable.from_text(json.dumps(table), family=product)
        return [str(one) for one in read.problems(product)]
    except JobError as error:
        return [str(one) for one in error.findings if one.severity == "error"] or [str(error)]


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("made", [v1_0, v1_2])
def test_good_tables_are_good_for_both(made, product):
    table = made()
    ours, theirs = our_errors(table, product), refused_by_loader(table, product)
    assert bool(ours) == (theirs is not None), (ours, theirs)


@pytest.mark.parametrize("made", [v1_0, v1_2])
@pytest.mark.parametrize("seed", range(4))
def test_what_the_loader_refuses_is_a_problem_and_what_it_takes_is_none(made, seed):
    source = random.Random(seed)
    both = {True: 0, False: 0}
    for _ in range(DRAWS):
        table = mutate(source, made())
        for product in PRODUCTS:
            ours, theirs = our_errors(table, product), refused_by_loader(table, product)
            both[theirs is None] += 1
            if theirs is not None:
                assert ours, (theirs, product, table)
            else:
                extra = [one for one in ours if not STRICTER.search(one)]
                assert not extra, (extra, product, table)
    assert min(both.values()) >= 4

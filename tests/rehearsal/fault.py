"""What stands in the tables of faults."""

from typing import NamedTuple, Tuple

__all__ = ["Fault", "Raising"]


class Fault(NamedTuple):
    """Something that is wrong, and the tests that have to find it.

    Attributes:
        name: For the test that checks this row.
        tests: ``module::test`` or ``module::Class``; a name stands for all that is below it.
        engine: Faults of the fake graph engine, as in ``FAKE_GE_FAULTS``.
        hole: One of tests/rehearsal/holes.py or holes_in_product.py.
        found_in: Where the tests fail: in the ``call`` of the test, or in the ``teardown`` of what
            all of them use.
    """

    name: str
    tests: Tuple[str, ...]
    engine: str = ""
    hole: str = ""
    found_in: str = "call"


class Raising(NamedTuple):
    """A test that fails under a fault even without its assertions.

    Attributes:
        fault: The fault's name.
        test: As in `Fault.tests`.
        reason: Why there is no better fault for it.
    """

    fault: str
    test: str
    reason: str

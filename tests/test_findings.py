"""What is found: its text, its order, and a limit on what is alike."""

from ascend_session.findings import (
    ERROR,
    INFO,
    NOT_CHECKED,
    OK,
    WARNING,
    Finding,
    Place,
    errors_of,
    limit_repeats,
    remarks_of,
    sort_by_severity,
)

ALL = [Finding(severity, "Is so.") for severity in (OK, INFO, WARNING, NOT_CHECKED, ERROR)]


def test_a_finding_reads_as_place_message_and_hint() -> None:
    assert str(Finding(ERROR, "Is so.", "Do that.")) == "Is so. Do that."
    assert str(Finding(ERROR, "Is so.", place="a[0]")) == "a[0]: Is so."
    assert str(Finding(ERROR, "Is so.", place=Place(3, 4))) == "3:4: Is so."
    assert str(Place(3, 4, cell=2)) == "cell 2:3:4"


def test_errors_come_first_and_what_is_in_order_last() -> None:
    assert [one.severity for one in sort_by_severity(ALL)] == [
        ERROR,
        WARNING,
        NOT_CHECKED,
        INFO,
        OK,
    ]


def test_errors_stop_a_job_and_remarks_are_shown() -> None:
    assert [one.severity for one in errors_of(ALL)] == [ERROR]
    assert [one.severity for one in remarks_of(ALL)] == [WARNING, NOT_CHECKED]


def test_what_is_alike_is_counted_after_the_first_few() -> None:
    alike = [Finding(ERROR, f"Rank {number} is so.", rule="rank") for number in range(1_500)]
    kept = limit_repeats([*alike, Finding(ERROR, "Other.", rule="other")])
    assert [one.message for one in kept] == [
        *(f"Rank {number} is so." for number in range(10)),
        "And 1,490 more like the last one.",
        "Other.",
    ]

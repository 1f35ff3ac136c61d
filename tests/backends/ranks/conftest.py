"""A job of real processes."""

from typing import Iterator

import pytest

from tests.backends.ranks.jobs import Job


@pytest.fixture
def job() -> Iterator[Job]:
    """A job without ranks yet; they are ended with the test."""
    job = Job()
    yield job
    job.close()

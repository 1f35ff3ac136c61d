"""A job of real processes."""

from typing import Iterator

import pytest

from tests.backends.exchange.jobs import Job


@pytest.fixture
def job(forking_python: str) -> Iterator[Job]:
    """A job without ranks yet, which will be forked; they are ended with the test."""
    job = Job(forking_python)
    yield job
    job.close()

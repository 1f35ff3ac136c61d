"""What the adapter learns of a rank that a scheduler started, and for how long."""

import os

import pytest

from ascend_session.backends.npu_job import export_variables, find_missing_variables
from tests.schedulers.situations import recorded


def test_the_environment_is_afterwards_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_ID", "")
    monkeypatch.delenv("RANK_ID", raising=False)
    before = dict(os.environ)
    with export_variables(
        find_missing_variables({**recorded("step, four tasks a node"), "JOB_ID": ""})
    ):
        assert (os.environ["RANK_ID"], os.environ["JOB_ID"]) == ("5", "slurm_2_0")
    assert dict(os.environ) == before


def test_the_id_of_a_job_has_no_characters_that_names_had_better_not_have() -> None:
    job = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    variables = find_missing_variables({**job, "PMIX_NAMESPACE": "prterun-node1-77@1"})
    assert variables["JOB_ID"] == "ompi_prterun-node1-77_1"

"""Which lines of the ranks are shown once a rank has failed."""

from ascend_session.launcher.show.failure_filter import FailureFilter
from ascend_session.rank_folder import write_record
from ascend_session.session.signals import Terminated


def test_a_rank_that_hears_of_a_failure_and_is_told_to_end_is_hidden_before_that_end_is_noted(
    tmp_path,
):
    folders = {rank: str(tmp_path / f"rank_{rank}") for rank in range(2)}
    for rank in folders:
        (tmp_path / f"rank_{rank}").mkdir()
    shown = FailureFilter(folders)
    assert shown.admit(0, "stderr", b"step 1\n", False) == b"step 1\n"
    write_record(RuntimeError("rank 1 has exited"), folders[0], failed_rank=1)
    write_record(Terminated(15), folders[0], ends_program=True)
    assert shown.admit(0, "stderr", b"Traceback\n", False) == b""
    assert shown.take_sentence(0) == "rank 0: stopped, because rank 1 failed"


def test_a_signal_after_a_failure_shows_no_more_of_the_other_ranks(tmp_path):
    shown = FailureFilter({rank: str(tmp_path / f"rank_{rank}") for rank in range(2)})
    shown.note_end(0)
    shown.note_stop()
    assert shown.admit(1, "stderr", b"Traceback\n", False) == b""


def test_a_rank_that_is_told_to_end_and_has_heard_of_nothing_is_no_cause(tmp_path):
    shown = FailureFilter({0: str(tmp_path)})
    write_record(Terminated(15), str(tmp_path), ends_program=True)
    assert shown.admit(0, "stderr", b"saved\n", False) == b"saved\n"
    assert shown.first_failed is None


def test_the_rank_that_is_blamed_is_the_one_that_is_shown(tmp_path):
    shown = FailureFilter({rank: str(tmp_path / f"rank_{rank}") for rank in range(2)})
    shown.note_end(0)
    assert shown.admit(1, "stdout", b"step 1\n", False) == b""
    shown.note_first_failed(1)
    assert shown.admit(1, "stdout", b"step 2\n", False) == b"step 2\n"
    assert shown.admit(0, "stderr", b"because of rank 1\n", False) == b""


def test_ranks_go_on_being_shown_after_one_that_sigterm_ends_until_it_counts_as_a_failure(tmp_path):
    folders = {rank: str(tmp_path / f"rank_{rank}") for rank in range(2)}
    for rank in folders:
        (tmp_path / f"rank_{rank}").mkdir()
    shown = FailureFilter(folders)
    write_record(Terminated(15), folders[0], ends_program=True)
    write_record(RuntimeError("rank 0 has left"), folders[1], failed_rank=0)
    assert shown.admit(1, "stderr", b"Traceback\n", False) == b""
    assert shown.take_sentence(1) == ""
    assert shown.admit(1, "stdout", b"results are written\n", False) == b"results are written\n"
    shown.note_first_failed(0)
    assert shown.take_sentence(1) == "rank 1: stopped, because rank 0 failed"
    assert shown.admit(1, "stdout", b"step 1\n", False) == b""


def test_a_checkpoint_that_is_saved_after_a_stop_is_shown_even_if_the_rank_has_exited(tmp_path):
    shown = FailureFilter({0: str(tmp_path)})
    shown.note_stop()
    write_record(OSError("no space"), str(tmp_path), ends_program=True)
    chunk = b"saved step 3\nTraceback (most recent call last)\n"
    assert shown.admit(0, "stderr", chunk, True) == b"saved step 3\n"
    assert shown.admit(0, "stderr", b"OSError: no space\n", True) == b""


def test_nothing_is_left_of_the_traceback_of_a_group_of_exceptions(tmp_path):
    shown = FailureFilter({0: str(tmp_path)})
    write_record(OSError("no space"), str(tmp_path), ends_program=True)
    chunk = b"step 3\n  + Exception Group Traceback (most recent call last):\n"
    assert shown.admit(0, "stderr", chunk, True) == b"step 3\n"

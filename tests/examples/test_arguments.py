"""What the examples take on the command line."""

import argparse
import os
from pathlib import Path

import pytest

from ascend_session.examples.digits import positive_int, writable_folder


def test_a_count_is_read() -> None:
    assert positive_int("12") == 12


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "", "x"])
def test_what_counts_nothing_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number of 1 or more"):
        positive_int(text)


def test_a_folder_is_made_and_given_as_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = writable_folder(os.path.join("new", "inner"))
    assert found == tmp_path.resolve() / "new" / "inner"
    assert found.is_dir()


def test_a_folder_that_exists_keeps_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    assert writable_folder(str(tmp_path)) == tmp_path.resolve()
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be created: Not a directory"):
        writable_folder(str(tmp_path / "file" / "inner"))

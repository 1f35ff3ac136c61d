"""The plugin in the tests of another project."""

import subprocess
import sys

import pytest

PASSING = """
import os
import pathlib
import unittest
import pytest

@pytest.fixture
def word():
    return "word" + os.environ.get("RANK_ID", " of no rank")

@pytest.mark.ranks(2)
@pytest.mark.parametrize("number", [1, "a b"])
def test_in_ranks(tmp_path, word, number, ascend_stub):
    (tmp_path / word).write_text(str(number))
    while len(list(tmp_path.iterdir())) < 2:
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["word0", "word1"]

def test_alone(ascend_stub, word):
    assert word == "word of no rank"
    assert os.environ["ASCEND_SESSION_BACKEND"] == "stub"

@pytest.mark.ranks(2)
def test_skipped():
    pytest.skip("not today")

@pytest.mark.ranks(2)
def test_skipped_by_one_of_them():
    if os.environ["RANK_ID"] == "1":
        pytest.skip("only here")

@pytest.mark.ranks(2)
@pytest.mark.xfail(strict=True, reason="known")
def test_known():
    assert os.environ["RANK_ID"] == "7"

class TestInClass:
    @pytest.mark.ranks(3)
    def test_method(self):
        assert os.environ["RANK_SIZE"] == "3"

class Case(unittest.TestCase):
    def setUp(self):
        self.size = os.environ.get("RANK_SIZE")

    @pytest.mark.ranks(2)
    def test_method_of_unittest(self):
        self.assertEqual(self.size, "2")

    def test_alone(self):
        self.assertIsNone(self.size)

    @pytest.mark.ranks(2)
    def test_skipped(self):
        self.skipTest("nor this")
"""
FAILING = """
import os
import signal
import time
import unittest
import pytest
from ascend_session import ascend_system

@pytest.mark.ranks(2)
def test_fails():
    print("said by a rank")
    if os.environ["RANK_ID"] == "0":
        time.sleep(600)
    left = 3
    assert left == 4

@pytest.mark.ranks(2)
def test_fails_because_of_another(tmp_path):
    if os.environ["RANK_ID"] == "0":
        def fail(number, frame):
            raise ValueError("stopped by %d" % number)
        signal.signal(signal.SIGTERM, fail)
        (tmp_path / "ready").touch()
        signal.pause()
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    raise KeyError("the first of two failures")

@pytest.mark.ranks(2, timeout=8)
def test_hangs():
    time.sleep(600)

@pytest.mark.ranks(2)
def test_exits():
    os._exit(5)

@pytest.mark.ranks("2")
def test_wrong_mark():
    pass

class Case(unittest.TestCase):
    @pytest.mark.ranks(2)
    def test_method(self):
        self.assertEqual("left", "right")

def test_left_open(ascend_stub):
    ascend_system().open()

def test_after_it(ascend_stub):
    with ascend_system() as system:
        assert system.rank == 0
"""


@pytest.fixture
def run_pytest(tmp_path):
    """Runs pytest in another project."""

    def run(source, *words, **files):
        (tmp_path / "test_it.py").write_text(source)
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", *words],
            cwd=str(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return run


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_tests_run_in_ranks_with_their_fixtures(run_pytest, workers, monkeypatch):
    for name, value in {"RANK_ID": "6", "RANK_TABLE_FILE": "/none", "JOB_ID": "another"}.items():
        monkeypatch.setenv(name, value)  # as below a scheduler
    done = run_pytest(PASSING, *workers)
    assert "7 passed, 2 skipped, 1 xfailed" in done.stdout, done.stdout
    assert "not today" in done.stdout
    assert "nor this" in done.stdout
    assert "only here" not in done.stdout
    assert done.returncode == 0


def test_a_test_fails_as_it_did_in_a_rank(run_pytest, tf):
    done = run_pytest(FAILING)
    assert "6 failed, 2 passed" in done.stdout, done.stdout
    assert "1 error" in done.stdout
    for said in (
        "rank 1 of 2:",
        "assert 3 == 4",
        "'left' != 'right'",
        "said by a rank",
        "the first of two failures",
        "did not all return within 8 s",
        "time.sleep(600)",
        "exited with code 5",
        "@pytest.mark.ranks(2, timeout=60)",
        "The test left a system open",
    ):
        assert said in done.stdout, said
    assert "stopped by 15" not in done.stdout
    assert "UserWarning" not in done.stdout  # of argparse, beside what a rank wrote
    assert "test_after_it" not in done.stdout


def test_the_plugin_loads_no_more_than_pytest_and_the_package(run_pytest):
    source = (
        "import sys\n"
        "def test_loaded():\n"
        "    loaded = {n for n in sys.modules if n.startswith('ascend_session.')}\n"
        "    assert 'ascend_session.testing.plugin' in loaded\n"
        "    assert loaded <= {'ascend_session.testing', 'ascend_session.testing.plugin',\n"
        "        'ascend_session.lazy', 'ascend_session.rank_folder',\n"
        "        'ascend_session.text'}, loaded\n"
        "    assert 'tensorflow' not in sys.modules\n"
    )
    done = run_pytest(source)
    assert done.returncode == 0, done.stdout

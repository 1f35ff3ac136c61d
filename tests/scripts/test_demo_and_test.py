"""The two commands of the README, from the first run to the ways in which one can fail."""

import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, Callable, List

import pytest

REAL_PIP = f"os.execv({sys.executable!r}, [{sys.executable!r}] + arguments)"
RAN = "ran pytest -n auto --dist worksteal"
DISK_FULL = "sys.exit('ERROR: [Errno 28] No space left on device')"


def begin_set_up(checkout: Any, python: Path) -> Any:
    """Start the demo and return once its pip is at work."""
    running = checkout.start("demo", PYTHON=str(python))
    checkout.wait_for_pip()
    return running


def test_the_first_run_sets_up_and_runs(checkout: Any) -> None:
    python = checkout.stand_in()
    first = checkout.run("demo", "--epochs", "3", PYTHON=str(python))
    assert first.code == 0
    announcement, *steps, ready, program = first.stdout.splitlines()
    assert announcement == (
        f"Setting up .venv/py37 with Python 3.7.16 ({python}); "
        "this happens once and takes some minutes."
    )
    assert steps == ["  1/3 virtual environment", "  2/3 pip", "  3/3 packages, the longest step"]
    assert ready.startswith("  Ready after ")
    assert program == "ran ascend_session.examples.demo --epochs 3"
    assert checkout.pip_calls() == [
        "-I -m pip install pip>=22.1",
        "-I -m pip install --no-compile --config-settings editable_mode=compat --editable "
        f"{checkout.top}[demo,tensorflow,test]",
    ]


def test_a_terminal_shows_meanwhile_what_pip_does(checkout: Any) -> None:
    collecting = f"print('Collecting tensorflow', flush=True); {checkout.waiting_pip}"
    terminal, theirs = os.openpty()
    python = str(checkout.stand_in(pip=collecting))
    running = checkout.start("test", PYTHON=python, stdout=theirs)
    os.close(theirs)
    shown = read_until(terminal, " s  Collecting tensorflow")
    checkout.open_gate(times=2)
    assert "3/3 packages" in shown + read_until(terminal, "ran pytest")
    assert running.outcome().code == 0
    os.close(terminal)


def read_until(terminal: int, text: str) -> str:
    shown = b""
    while text.encode() not in shown:
        assert select.select([terminal], [], [], 60)[0], shown
        shown += os.read(terminal, 4096)
    return shown.decode(errors="replace")


def test_later_runs_of_either_script_go_straight_to_work(checkout: Any) -> None:
    python = str(checkout.stand_in())
    checkout.run("demo", PYTHON=python)
    calls = checkout.pip_calls()
    assert checkout.run("demo", PYTHON=python).stdout == "ran ascend_session.examples.demo\n"
    assert checkout.run("test", "-k", "a b", PYTHON=python).stdout == f"{RAN} -k a b\n"
    assert checkout.pip_calls() == calls


def test_the_tests_run_at_the_top_of_the_checkout_and_pass_on_the_exit_code(checkout: Any) -> None:
    python = str(checkout.stand_in(pip="pass"))
    checkout.run("test", PYTHON=python)
    program = checkout.venv / "py37" / "bin" / "python"
    program.write_text("#!/bin/sh\npwd\nexit 5\n")
    again = checkout.run("test", PYTHON=python)
    assert (again.code, again.stdout) == (5, f"{checkout.top}\n")


def test_the_tests_have_none_of_the_variables_of_this_machine(checkout: Any) -> None:
    python = str(checkout.stand_in())
    checkout.run("test", PYTHON=python)
    (checkout.venv / "py37" / "bin" / "python").write_text("#!/bin/sh\nenv\n")
    variables = {"PYTHON": python, "LANG": "C.UTF-8", "https_proxy": "http://localhost:9"}
    ran = checkout.run("test", PYTHONUNBUFFERED="1", RUST_BACKTRACE="full", **variables)
    expected = {f"{name}={value}" for name, value in variables.items()}
    assert set(ran.stdout.splitlines()) >= {*expected, f"HOME={checkout.top}"}
    assert "PYTHONUNBUFFERED" not in ran.stdout
    assert "RUST_BACKTRACE" not in ran.stdout


def test_any_command_can_be_run_with_these_variables(checkout: Any) -> None:
    ran = checkout.run("_bootstrap/start", "clean", "env", PYTHONUNBUFFERED="1", LANG="C.UTF-8")
    assert "LANG=C.UTF-8" in ran.stdout.splitlines()
    assert "PYTHONUNBUFFERED" not in ran.stdout


def test_two_interpreters_have_an_environment_each(checkout: Any) -> None:
    for version in ((3, 7, 16), (3, 11, 7)):
        python = checkout.stand_in(f"my-python-{version[1]}", version)
        assert checkout.run("test", PYTHON=str(python)).code == 0
    assert checkout.environments() == ["py311", "py37"]


def test_a_tensorflow_can_be_asked_for(checkout: Any) -> None:
    python = str(checkout.stand_in(version=(3, 11, 7)))
    pin = "tensorflow-cpu==2.15.*"
    assert checkout.run("test", PYTHON=python, ASCEND_SESSION_TEST_TENSORFLOW=pin).code == 0
    assert checkout.pip_calls()[-1].endswith("[demo,tensorflow,test] tensorflow-cpu==2.15.*")
    assert checkout.environments() == ["py311-tensorflow-cpu-2.15"]


def test_a_changed_project_is_installed_again(checkout: Any) -> None:
    python = str(checkout.stand_in())
    checkout.run("test", PYTHON=python)
    left_over = checkout.venv / "py37" / "left-over"
    left_over.write_text("")
    with (checkout.top / "pyproject.toml").open("a") as project:
        project.write("dependencies = ['rich']\n")
    assert checkout.run("test", PYTHON=python).code == 0
    assert len(checkout.pip_calls()) == 4
    assert not left_over.exists()


@pytest.mark.parametrize("script", ["demo", "test"])
def test_a_missing_interpreter_is_one_sentence(checkout: Any, script: str) -> None:
    sentence = checkout.run(script, PYTHON="/nonexistent").sentence()
    assert sentence.startswith('PYTHON asks for "/nonexistent", but there is no such program:')
    assert not checkout.venv.exists()


def test_an_interpreter_that_is_too_old_is_one_sentence(checkout: Any) -> None:
    python = checkout.stand_in(version=(3, 6, 15))
    sentence = checkout.run("test", PYTHON=str(python)).sentence()
    assert sentence == (
        f'PYTHON asks for "{python}", which is Python 3.6.15: set PYTHON to Python 3.7, or 3.9 or '
        "newer, or unset it to let the script choose."
    )


def test_no_suitable_interpreter_is_one_sentence(checkout: Any) -> None:
    (checkout.bin / "dirname").symlink_to("/usr/bin/dirname")
    python = checkout.stand_in("python3", (3, 8, 18))
    sentence = checkout.run("demo", PATH=str(checkout.bin)).sentence()
    assert f"(found: {python} is Python 3.8.18)" in sentence


def test_no_python_at_all_is_one_sentence(checkout: Any) -> None:
    (checkout.bin / "dirname").symlink_to("/usr/bin/dirname")
    (checkout.bin / "python3").unlink()
    sentence = checkout.run("demo", PATH=str(checkout.bin)).sentence()
    assert sentence.startswith("No Python 3 was found on PATH or under pyenv: install Python 3.7,")


def test_a_full_disk_is_one_sentence_and_the_next_run_starts_clean(checkout: Any) -> None:
    broken = checkout.run("demo", PYTHON=str(checkout.stand_in(pip=DISK_FULL)))
    assert ".venv/py37 could not be set up because the disk is full:" in broken.sentence()
    assert "No space left on device" in (checkout.venv / "py37.log").read_text()
    assert checkout.environments() == []
    assert checkout.run("demo", PYTHON=str(checkout.stand_in())).code == 0


def test_no_network_is_one_sentence_and_the_next_run_starts_clean(checkout: Any) -> None:
    # Nothing listens on the port "discard"; without "dry run", a mistake here would install.
    closed = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DRY_RUN": "1",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
    }
    python = checkout.stand_in(pip=REAL_PIP)
    failed = checkout.run("test", PYTHON=str(python), **closed)
    assert "because the package index could not be reached: connect to the" in failed.sentence()
    assert checkout.environments() == []
    assert checkout.run("test", PYTHON=str(checkout.stand_in())).code == 0


def test_a_venv_that_cannot_be_written_is_one_sentence(checkout: Any) -> None:
    checkout.venv.write_text("a file where the folder should be")
    sentence = checkout.run("demo", PYTHON=str(checkout.stand_in())).sentence()
    assert sentence.startswith(f"{checkout.venv} could not be used (File exists): make it writable")


@pytest.mark.parametrize(
    ("stop", "number", "code"),
    [
        (os.killpg, signal.SIGINT, 130),
        (os.kill, signal.SIGTERM, 143),
        (os.kill, signal.SIGHUP, 129),
    ],
    ids=["ctrl-c", "terminated", "hung-up"],
)
def test_a_set_up_that_is_stopped_leaves_nothing_half_made(
    checkout: Any, stop: Callable[[int, int], None], number: int, code: int
) -> None:
    running = begin_set_up(checkout, checkout.stand_in(pip=checkout.waiting_pip))
    stop(running.pid, number)
    outcome = running.outcome()
    assert outcome.code == code
    assert outcome.sentence() == (
        "Stopped before the environment was ready; nothing half-made is left, run this again."
    )
    assert checkout.environments() == []


def test_a_set_up_that_is_killed_is_waited_out_and_done_again(checkout: Any) -> None:
    python = checkout.stand_in(pip=checkout.waiting_pip)
    first = begin_set_up(checkout, python)
    os.kill(first.pid, signal.SIGKILL)
    assert first.outcome().code == -signal.SIGKILL
    checkout.stand_in()
    second = checkout.start("test", PYTHON=str(python))
    assert second.line() == "Waiting for the script that is setting up py37."
    checkout.open_gate()
    assert second.outcome().code == 0
    assert len(checkout.pip_calls()) == 1 + 2
    assert checkout.environments() == ["py37"]


def test_two_scripts_at_the_same_time_set_up_once(checkout: Any) -> None:
    python = checkout.stand_in(pip=checkout.waiting_pip)
    first = begin_set_up(checkout, python)
    second = checkout.start("test", PYTHON=str(python))
    assert second.line() == "Waiting for the script that is setting up py37."
    checkout.open_gate(times=2)
    assert first.outcome().code == 0
    assert second.outcome().stdout == f"{RAN}\n"
    assert len(checkout.pip_calls()) == 2


def test_scripts_that_queue_behind_another_set_up_then_run_side_by_side(checkout: Any) -> None:
    other = begin_set_up(checkout, checkout.stand_in("other", (3, 11, 7), pip=checkout.waiting_pip))
    python = str(checkout.stand_in())
    queue = [checkout.start(script, "hold", PYTHON=python) for script in ("demo", "test")]
    for each in queue:
        assert each.line() == "Waiting for another script that is setting up its environment."
    checkout.open_gate(times=2)
    assert other.outcome().code == 0
    lines = [line for each in queue for line in until_it_runs(each)]
    assert sorted(line.split()[0] for line in lines) == ["Setting", "ran", "ran"]
    checkout.open_gate(times=2)
    assert [each.outcome().code for each in queue] == [0, 0]


def until_it_runs(running: Any) -> List[str]:
    """The lines up to the one that the script's program writes, but for how far the set-up is."""
    lines = [running.line()]
    while lines[-1] and not lines[-1].startswith("ran"):
        lines.append(running.line())
    return [line for line in lines if not line.startswith("  ")]


def test_scripts_run_side_by_side_in_one_environment(checkout: Any) -> None:
    python = str(checkout.stand_in())
    checkout.run("test", PYTHON=python)
    first = checkout.start("demo", "hold", PYTHON=python)
    assert first.line() == "ran ascend_session.examples.demo hold"
    assert checkout.run("test", PYTHON=python).code == 0
    checkout.open_gate()
    assert first.outcome().code == 0


def test_an_environment_is_not_replaced_under_a_script_that_runs_in_it(checkout: Any) -> None:
    python = str(checkout.stand_in())
    first = checkout.start("demo", "hold", PYTHON=python)
    assert until_it_runs(first)[-1] == "ran ascend_session.examples.demo hold"
    (checkout.top / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    second = checkout.start("test", PYTHON=python)
    assert second.line() == "Waiting for what still runs in py37."
    assert len(checkout.pip_calls()) == 2
    checkout.open_gate()
    assert first.outcome().code == 0
    assert second.outcome().code == 0
    assert len(checkout.pip_calls()) == 2 + 2

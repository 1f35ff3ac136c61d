"""What the guide shows of sessions that others open is run as it stands there."""

import inspect
import re
import shlex
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ascend_session import AscendConfig, ascend_system, training
from hardware_tests.backend_contract import entry
from tests.examples.running import TOP, launch, run

CONFIG = AscendConfig(precision_mode="allow_mix_precision", deterministic=1)
PARAMETERS = {"deterministic": 1, "precision_mode": "allow_mix_precision"}


GUIDE = (TOP / "ascend_session/guides/session_owners.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first block of code in it that is of this language."""
    found = re.findall(r"^```(\w+).*?\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return next(text for name, text in found if name == language)


LINES = block("python").splitlines()


def npu_run_config(**given: Any) -> Dict[str, Any]:
    """What the vendor's class is given, of the options that are shown to it here."""

    def signature(precision_mode: Any = None, deterministic: Any = 0) -> None:
        """Of npu_config.py."""

    return inspect.signature(signature).bind(**given).arguments


def entry_of(made: Any) -> Dict[str, Any]:
    """The options that reached what a line has made; what is open is closed again."""
    if hasattr(made, "session_config"):
        return AscendConfig.from_config_proto(made.session_config).parameter_map()
    if not hasattr(made, "__enter__"):
        return dict(made)
    with made as sess:
        # MonitoredTrainingSession gives hooks alone the session that it has opened.
        return entry(sess._tf_sess() if hasattr(sess, "_tf_sess") else sess)


def missing(tf: Any, line: str) -> bool:
    """Whether this TensorFlow has no longer what the line uses."""
    if "tf.estimator" in line:
        return not hasattr(tf, "estimator")
    return "tf.keras" in line and not hasattr(tf.keras.backend, "set_session")


@pytest.mark.smoke
@pytest.mark.parametrize("line", LINES, ids=[line.split("(")[0] for line in LINES])
def test_each_line_gives_the_session_the_options_of_the_system(
    tf: Any, line: str, tmp_path: Path, monkeypatch: Any
) -> None:
    if missing(tf, line):
        pytest.skip(f"TensorFlow {tf.__version__} has no longer what this needs")
    monkeypatch.chdir(tmp_path)
    tf.train.get_or_create_global_step()
    names = {"tf": tf, "config": CONFIG, "NPURunConfig": npu_run_config, "frozen_graph": tf.Graph()}
    names["training"] = training
    with ascend_system(CONFIG) as system:
        with system.session() as sess:
            made = eval(line, {**names, "system": system, "sess": sess})
            if made is None:
                assert tf.keras.backend.get_session() is sess
                made = entry(sess)
                tf.keras.backend.set_session(None)
        assert entry_of(made) == PARAMETERS


def test_each_example_of_the_table_is_there_and_no_other() -> None:
    named = re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    folder = TOP / "ascend_session" / "examples"
    programs = {path.stem for path in folder.glob("*.py") if path.stem[0] != "_"}
    assert sorted(named) == sorted(programs - {"digits", "demo"})


def test_the_commands_print_what_is_shown(tmp_path: Path, forking_python: str) -> None:
    alone, *shown = block("console").splitlines()
    assert alone[:9] == "$ python "
    outcome = run(*shlex.split(alone[9:]), cwd=tmp_path, ASCEND_SESSION_BACKEND="stub")
    assert outcome.code == 0, outcome.stderr
    assert words(outcome.stdout) == words("\n".join(shown))

    command = shlex.split(block("sh"))
    assert command[:4] == ["ascend-session", "launch", "-n", "2"]
    job = launch(2, "--log-dir", "logs", *command[4:], cwd=tmp_path, python=forking_python)
    assert job.code == 0, job.stderr
    ours = [line.replace("[0] ", "") for line in job.stdout.splitlines() if line[:3] == "[0]"]
    assert words("\n".join(ours)) == words("\n".join(shown))


def words(text: str) -> List[Any]:
    """Its words, and its numbers as far as rounding leaves them the same."""
    return [
        pytest.approx(float(word), abs=2e-5) if re.fullmatch(r"-?\d\S*", word) else word
        for word in text.split()
    ]

"""Nobody trains on the CPU without knowing: what is said when nobody asked for a backend."""

import json
from pathlib import Path
from typing import Any, Callable, List

import pytest

from tests.running import Host

SENTENCE = "WARNING This program runs on the CPU"
REASON = "no Ascend processor is present (there is no /dev/davinci*)."


@pytest.fixture
def warnings(programs: Host, tmp_path: Path) -> Callable[..., List[str]]:
    """Opens two systems in a process with these variables; gives what is said about the CPU."""

    def run(backend: str = "auto", **variables: str) -> List[str]:
        given = {"ASCEND_SESSION_HOST_ROOT": str(tmp_path), **variables}
        ended = programs.run("automatic", json.dumps(given), backend)
        assert ended.code == 0, ended.log
        lines = ended.log.splitlines()
        pairs = zip(lines, lines[1:])
        return [line + hint for line, hint in pairs if line.startswith(SENTENCE)]

    return run


def test_the_first_opening_warns_with_the_reason_and_the_second_does_not(warnings: Any) -> None:
    (line,) = warnings()
    assert line.startswith(f"{SENTENCE}: {REASON}")
    assert "ASCEND_SESSION_BACKEND=stub" in line


def test_what_was_asked_for_by_a_variable_is_nothing_to_warn_of(warnings: Any) -> None:
    assert warnings(ASCEND_SESSION_BACKEND="stub") == []


def test_what_was_asked_for_by_name_is_nothing_to_warn_of(warnings: Any) -> None:
    assert warnings(backend="stub") == []


def test_of_several_ranks_on_a_host_one_warns(warnings: Any) -> None:
    assert warnings(RANK_ID="1", RANK_SIZE="2") == []
    assert len(warnings(RANK_ID="0", RANK_SIZE="2")) == 1


@pytest.mark.parametrize("sign", ["ASCEND_TOOLKIT_HOME is set", "/usr/local/Ascend exists"])
def test_where_the_vendors_software_is_the_warning_is_stronger(
    warnings: Any, tmp_path: Path, sign: str
) -> None:
    if sign.startswith("/"):
        (tmp_path / "usr" / "local" / "Ascend").mkdir(parents=True)
        (line,) = warnings()
    else:
        (line,) = warnings(ASCEND_TOOLKIT_HOME="/opt/ascend")
    assert line.startswith(f"{SENTENCE} and not on a device, although {sign}: {REASON}")
    assert "--device=/dev/davinci0" in line

"""Which modules and functions are too long."""

import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

SIZES = Path(__file__).resolve().parents[2] / "scripts" / "_sizes.py"


def report(folder: Path) -> Tuple[int, List[str]]:
    ended = subprocess.run(
        [sys.executable, str(SIZES), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    return ended.returncode, ended.stdout.splitlines()


def test_what_is_within_the_limits_is_not_reported(tmp_path: Path) -> None:
    function = "def f():\n" + "    pass\n" * 49
    (tmp_path / "m.py").write_text(function + "x = 1\n" * 250)
    assert report(tmp_path) == (0, [])


def test_a_module_of_more_than_300_lines_is_reported(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    path = tmp_path / "room" / "m.py"
    path.write_text("x = 1\n" * 301)
    assert report(tmp_path) == (1, [f"{path}: 301 lines, a module has at most 300"])


def test_a_function_of_more_than_50_lines_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("class C:\n    async def f(self):\n" + "        pass\n" * 50)
    assert report(tmp_path) == (1, [f"{path}:2: f has 51 lines, a function has at most 50"])

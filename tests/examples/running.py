"""Runs the examples as their users do."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

__all__ = ["TOP", "Outcome", "environment", "launch", "run"]

TOP = Path(__file__).resolve().parents[2]


class Outcome(NamedTuple):
    """What a program said, and how it ended."""

    code: int
    stdout: str
    stderr: str

    def table(self) -> List[List[float]]:
        """The numbers of each line of the table that has one for an epoch."""
        lines = re.findall(r"^ *(\d+(?: +[0-9.]+)+) *$", self.stdout, re.MULTILINE)
        return [[float(number) for number in line.split()] for line in lines]

    def after(self, label: str) -> str:
        """What the one line that begins with ``label`` says after it."""
        (text,) = re.findall(f"^{re.escape(label)}(.*)$", self.stdout, re.MULTILINE)
        return str(text).strip()


def environment(**more: str) -> Dict[str, str]:
    """Variables for a program, without those that would decide something for it."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "RANK", "TF_"))}
    return {**base, "PYTHONPATH": str(TOP), **more}


def run(*arguments: str, cwd: Path, python: str = sys.executable, **environ: str) -> Outcome:
    """Runs Python with these arguments."""
    ended = subprocess.run(
        [python, *arguments],
        cwd=str(cwd),
        env=environment(**environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


def launch(size: int, *arguments: str, cwd: Path, python: str) -> Outcome:
    """Starts Python with these arguments as a job on the stub."""
    command = ["-m", "ascend_session.cli", "launch", "-n", str(size), "--backend", "stub"]
    return run(*command, "--python", python, *arguments, cwd=cwd)

"""How Slurm and Open MPI are fetched for tests, and what is said where they cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "_schedulers"
# Fetches into a folder and says what came of it.
_FETCH = """
import sys
sys.path.insert(0, sys.argv[1])
from packages import FetchError, fetch
try:
    print(fetch(sys.argv[2]).root)
except FetchError as failure:
    sys.exit(str(failure))
"""
# An apt-get that notes its calls; "install" names a library, "download" makes packages.
_APT = """#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in *"$FAILS"*) echo "E: $FAILS failed"; echo "E: and more"; exit 100 ;; esac
for word in "$@"; do
    case $word in
    install) echo "Inst libmunge2 (0.5 Debian)" ;;
    download) fetched=yes ;;
    *) [ -z "$fetched" ] || : >"$word.deb" ;;
    esac
done
"""
_DPKG = '#!/bin/sh\nmkdir -p "$3/usr/bin"\necho "$2" >>"$3/unpacked"\n'


class Machine:
    """A folder to fetch into, and the programs on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fetched"
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._calls = folder / "calls"

    def has(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def fetch(self, fails: str = "nothing at all") -> "subprocess.CompletedProcess[str]":
        # The fakes need a shell and its tools, but not this machine's apt-get.
        for tool in ("sh", "mkdir"):
            if not (self._bin / tool).exists():
                (self._bin / tool).symlink_to(f"/bin/{tool}")
        return subprocess.run(
            [sys.executable, "-S", "-c", _FETCH, str(_SCRIPTS), str(self.folder)],
            env={"PATH": str(self._bin), "CALLS": str(self._calls), "FAILS": fails},
            capture_output=True,
            text=True,
        )

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def debian(machine: Machine) -> Machine:
    machine.has("apt-get", _APT)
    machine.has("dpkg", _DPKG)
    return machine


def test_without_apt_it_is_said_what_is_needed(machine: Machine) -> None:
    fetched = machine.fetch()
    assert fetched.returncode == 1
    assert "there is no apt-get here" in fetched.stderr
    assert "need Debian" in fetched.stderr


def test_packages_and_what_they_need_are_unpacked_and_not_fetched_again(debian: Machine) -> None:
    fetched = debian.fetch()
    assert fetched.stdout.strip() == str(debian.folder / "root"), fetched.stderr
    names = {Path(line).stem for line in (debian.folder / "root" / "unpacked").read_text().split()}
    assert {"slurmctld", "slurmd", "openmpi-bin", "munge", "libmunge2"} <= names
    assert os.readlink(str(debian.folder / "root/usr/bin/mpirun")) == "mpirun.openmpi"
    calls = debian.calls
    assert debian.fetch().returncode == 0
    assert debian.calls == calls
    assert sorted(os.listdir(str(debian.folder))) == ["lock", "root"]


@pytest.mark.parametrize("fails", ["install", "download"])
def test_where_the_machines_list_does_not_do_a_new_one_is_tried(
    debian: Machine, fails: str
) -> None:
    fetched = debian.fetch(fails)
    assert fetched.returncode == 1
    assert f"said: E: {fails} failed" in fetched.stderr
    assert debian.calls >= 3  # also with a list of its own
    # Nothing half-made stays.
    assert os.listdir(str(debian.folder)) == ["lock"]
    assert debian.fetch().returncode == 0


def test_a_mirror_that_is_not_there_is_named(debian: Machine) -> None:
    debian.has("apt-get", "#!/bin/sh\necho E: Failed to fetch http://mirror\nexit 100\n")
    fetched = debian.fetch()
    assert "Slurm and Open MPI could not be fetched: 'apt-get update'" in fetched.stderr
    assert "Failed to fetch http://mirror" in fetched.stderr

"""Slurm and Open MPI from Debian's packages, unpacked below .venv: nothing is installed, no root.

The packages are fetched by apt and unpacked by dpkg, so that no daemon starts by itself, no user is
made, and the machine stays as it is. Needs only the standard library. Run as a program, it fetches
what is not there yet and prints the variables with which the programs run, as JSON.
"""

import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(TOP, ".venv", "schedulers")

# The programs and what they load by name; apt adds the libraries that the machine does not have.
PACKAGES = (
    "munge",
    "openmpi-bin",
    "openmpi-common",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurmctld",
    "slurmd",
)
_SECONDS = 600  # for one program of apt's, whose downloads may be slow


class FetchError(Exception):
    """Why the packages cannot be had: one sentence."""


class Programs(NamedTuple):
    """Where the unpacked programs and libraries are."""

    root: str

    def path(self, name: str) -> str:
        """The path of a program; Debian's ``slurmd`` is called ``slurmd-wlm``."""
        folders = os.pathsep.join(os.path.join(self.root, "usr", each) for each in ("bin", "sbin"))
        for each in (name, f"{name}-wlm", f"{name}.openmpi"):
            found = shutil.which(each, path=folders)
            if found is not None:
                return found
        raise FetchError(f"The packages in {self.root} have no {name}: remove it, and try again.")

    @property
    def slurm_plugins(self) -> str:
        """The folder of Slurm's plugins."""
        return self._only("slurm-wlm")

    def environ(self) -> Dict[str, str]:
        """The variables with which the programs run from where they are."""
        library = os.path.dirname(self.slurm_plugins)
        folders = [library, self.slurm_plugins, library.replace("/usr/lib/", "/lib/")]
        found = {
            "PATH": os.pathsep.join([os.path.join(self.root, "usr", "bin"), os.environ["PATH"]]),
            "LD_LIBRARY_PATH": os.pathsep.join(folders),
            # Its help files are looked for where they are not; it is about compression.
            "PMIX_MCA_pcompress_base_silence_warning": "1",
        }
        plugins = glob.glob(os.path.join(library, "openmpi", "lib", "openmpi*"))
        if plugins:  # else the machine has an Open MPI of its own, with its own folders
            found["OPAL_PREFIX"] = os.path.join(self.root, "usr")
            found["OPAL_LIBDIR"] = library
            found["OPAL_PKGLIBDIR"] = plugins[0]
        return found

    def _only(self, name: str) -> str:
        found = glob.glob(os.path.join(self.root, "usr", "lib", "*", name))
        if len(found) != 1:
            raise FetchError(f"{self.root} is not whole: remove it, and try again.")
        return found[0]


def fetch(folder: str = FOLDER) -> Programs:
    """The programs, which are fetched unless they are there; whoever comes second waits.

    Raises:
        FetchError: They are not there and cannot be fetched.
        OSError: The folder cannot be written.
    """
    root = os.path.join(folder, "root")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(root):
            _check_tools()
            new = os.path.join(folder, "new")
            shutil.rmtree(new, ignore_errors=True)
            try:
                _unpack(_download(os.path.join(new, "packages")), os.path.join(new, "root"))
                os.replace(os.path.join(new, "root"), root)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return Programs(root)


def _check_tools() -> None:
    missing = [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]
    if missing:
        raise FetchError(
            f"Slurm and Open MPI come from Debian's packages, and there is no {missing[0]} here: "
            "the tests with them need Debian or a distribution made of it."
        )


def _download(folder: str) -> List[str]:
    """Fetches the packages, by the machine's list of packages, else by a new one."""
    trouble = ""
    for options in _options(folder):
        packages = os.path.join(folder, "files")
        shutil.rmtree(packages, ignore_errors=True)
        os.makedirs(packages)
        try:
            if options:
                _run(["apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update"], folder)
            asked = ["apt-get", *options, "--simulate", "--no-install-recommends", "install"]
            said = _run([*asked, *PACKAGES], folder)
            names = {*PACKAGES, *re.findall(r"^Inst (\S+)", said, re.MULTILINE)}
            _run(["apt-get", *options, "download", *sorted(names)], packages)
            return sorted(glob.glob(os.path.join(packages, "*.deb")))
        except FetchError as failure:
            trouble = str(failure)
    raise FetchError(trouble)


def _options(folder: str) -> Iterator[List[str]]:
    """The options of apt for either list; the second one's is kept away from the machine's."""
    yield []
    places = {"State::lists": "lists", "Cache": "cache"}
    for place in places.values():
        os.makedirs(os.path.join(folder, place, "partial"))
    own = [f"Dir::{name}={os.path.join(folder, place)}" for name, place in places.items()]
    yield [word for option in own for word in ("-o", option)]


def _unpack(packages: List[str], root: str) -> None:
    for package in packages:
        _run(["dpkg", "-x", package, root], os.path.dirname(package))
    # What the alternatives system would link.
    for name in ("mpirun", "mpiexec"):
        os.symlink(f"{name}.openmpi", os.path.join(root, "usr", "bin", name))


def _run(command: List[str], folder: str) -> str:
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"'{_name(command)}' did not end within {_SECONDS} s.") from None
    if ran.returncode:
        raise FetchError(
            f"Slurm and Open MPI could not be fetched: '{_name(command)}' ended with "
            f"{ran.returncode} and said: {_trouble(ran.stdout)}"
        )
    return ran.stdout


def _name(command: List[str]) -> str:
    plain = [word for word in command if word != "-o" and "::" not in word]
    return " ".join(plain[:2])


def _trouble(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return errors[0] if errors else (lines or ["nothing"])[-1]


def main() -> Optional[str]:
    """Prints the variables, or returns why there are none."""
    try:
        print(json.dumps(fetch().environ(), indent=2))
    except (FetchError, OSError) as failure:
        return str(failure)
    return None


if __name__ == "__main__":
    sys.exit(main())

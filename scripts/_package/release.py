"""Makes what is published: nothing is left in dist/ that has not passed its tests.

The wheel is built from the sdist, and the sdist's tests run against the wheel, in a new virtual
environment with no other package of this project.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def main() -> None:
    """Build, check, test, and move both archives to dist/."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", str(place / "dist"), str(TOP))
        (sdist,) = (place / "dist").glob("*.tar.gz")
        (wheel,) = (place / "dist").glob("*.whl")
        run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
        test(wheel, sdist, place)
        (TOP / "dist").mkdir(exist_ok=True)
        for archive in (sdist, wheel):
            print("Made", shutil.move(str(archive), str(TOP / "dist" / archive.name)))


def test(wheel: Path, sdist: Path, place: Path) -> None:
    """Run the sdist's smoke tests against the wheel."""
    shutil.unpack_archive(str(sdist), str(place / "unpacked"))
    (source,) = (place / "unpacked").iterdir()
    # Tests read guides there, but are to find modules where pip has put them, and nowhere else.
    for module in (source / "ascend_session").rglob("*.py"):
        module.unlink()
    run(os.environ.get("PYTHON", sys.executable), "-m", "venv", str(place / "venv"))
    python = str(place / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[demo,tensorflow,test]")
    run(python, "-m", "pytest", "-m", "smoke", cwd=source)


def run(*command: str, cwd: Path = TOP) -> None:
    """Run a program, whose failure ends everything."""
    print("==>", *command, flush=True)
    done = subprocess.run(command, cwd=str(cwd), stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: nothing was put into dist/.")


if __name__ == "__main__":
    main()

"""The sdist: everything that is in the repository, so that its tests run from it.

setuptools takes the package alone, and what else a MANIFEST.in at the top level names. This project
keeps its top level to what people open, so pyproject.toml names this class instead.
"""

import os
from typing import Iterator, Sequence

from setuptools.command.sdist import sdist

# Guides, since those for contributors are excluded from the wheel
FOLDERS = (".ci", "ascend_session/guides", "hardware_tests", "scripts", "tests")
FILES = (".gitignore",)
# Not followed: what tools leave in them.
CACHES = ("__pycache__", ".import_linter_cache", ".mypy_cache", ".pytest_cache", ".ruff_cache")


class SourceArchive(sdist):  # type: ignore[misc]  # setuptools has no types for Python 3.7
    """The command ``sdist`` with the folders beside the package."""

    def make_distribution(self) -> None:
        """Write the archive; see setuptools."""
        self.filelist.extend([*FILES, *_files_below(FOLDERS)])
        self.filelist.sort()
        self.filelist.remove_duplicates()
        super().make_distribution()


def _files_below(folders: Sequence[str]) -> Iterator[str]:
    for top in folders:
        for folder, below, names in os.walk(top):
            below[:] = sorted(set(below).difference(CACHES))
            for name in sorted(names):
                if not name.endswith(".pyc"):
                    yield os.path.join(folder, name)

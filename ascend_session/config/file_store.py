"""Where the files go that a configuration holds as objects."""

import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

if TYPE_CHECKING:
    from ascend_session.option_files.base import OptionFile

FOLDER = "ascend_option_files"


def is_file(value: object) -> bool:
    """Whether an option's value is a file as an object, and not its path."""
    if value is None or type(value) in (str, int, bool, float):
        return False
    from ascend_session.option_files.base import OptionFile

    return isinstance(value, OptionFile)


class FileStore:
    """Puts files into one folder, which stays the same whatever the working directory becomes.

    A file has a digest of its content in its name: ranks and systems that say the same share it,
    and one that is in use never changes.

    Args:
        environ: Where ``ASCEND_WORK_PATH`` is looked for; None means ``os.environ``.
        writes: Whether files are written at all; their paths are the same if not.

    Attributes:
        folder: ``ascend_option_files`` below ``ASCEND_WORK_PATH``, else the working directory.
    """

    def __init__(self, environ: Optional[Mapping[str, str]] = None, writes: bool = True) -> None:
        environ = os.environ if environ is None else environ
        parent = os.path.abspath(environ.get("ASCEND_WORK_PATH") or os.curdir)
        self.folder = os.path.join(parent, FOLDER)
        self._writes = writes
        self._files: Dict[str, OptionFile] = {}

    def stored(self, config: Any) -> Any:
        """Copy ``config`` with paths instead of objects, whose files are there then.

        Raises:
            ConfigError: If a file cannot be written.
        """
        paths = {name: self.path(file) for name, file in config.given().items() if is_file(file)}
        return config.model_copy(update=paths) if paths else config

    def path(self, file: "OptionFile") -> str:
        """Give the path of a file, which is there then; see `stored`.

        Files that are equal have one path, also if their text has another order.
        """
        file = next((known for known in self._files.values() if known == file), file)
        path = file.store(self.folder) if self._writes else file.path_in(self.folder)
        self._files[path] = file
        return path

    def restored(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        """Copy ``values`` with the objects whose paths they have from here."""
        return {
            key: self._files.get(value, value) if isinstance(value, str) else value
            for key, value in values.items()
        }

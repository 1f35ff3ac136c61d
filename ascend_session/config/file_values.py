"""Options that point to a file: they take its path, or what stands in it as an object."""

import os
from typing import Any, Mapping

from ascend_session.config.values import path_text
from ascend_session.option_files.kinds import TYPE_NAMES, file_type

__all__ = ["FILE_SCHEMA", "FileValue"]

FILE_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "object"}]}


class FileValue:
    """A path, or what stands in the file, as an object of ascend_session.option_files.

    A configuration file has a mapping of the object's fields. What stands in it is written where
    the system opens: below ASCEND_WORK_PATH or the current directory, in ascend_option_files.
    """

    def __init__(self, option: str) -> None:
        self.option = option
        self.words = f"path or {TYPE_NAMES[option]}"

    def __call__(self, value: object) -> Any:
        """The path as text, or the object.

        Raises:
            ValueError: If it is neither; a ConfigError if the fields of a mapping are wrong.
        """
        if isinstance(value, (str, bytes, os.PathLike)):
            return path_text(value)
        kind = file_type(self.option)
        if isinstance(value, Mapping):
            return kind.of(value)
        if isinstance(value, kind):
            return value
        raise ValueError(
            f"{value!r} cannot be used: a path or {kind.__name__} is needed, this is "
            f"{type(value).__name__}."
        )

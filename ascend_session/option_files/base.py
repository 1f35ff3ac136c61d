"""`OptionFile`, the base class of the files that options point to."""

import dataclasses
import os
from typing import (
    Any,
    Callable,
    ClassVar,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    NoReturn,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ascend_session.errors import ConfigError, UnsupportedError
from ascend_session.files import load_file, store_file, stored_path, write_file
from ascend_session.findings import ERROR, Finding
from ascend_session.option_files.source_file import SourceFile, encode
from ascend_session.text import is_writable

PathLike = Union[str, "os.PathLike[str]"]
_File = TypeVar("_File", bound="OptionFile")


def mapping_field() -> Any:
    """Declare a field for a dictionary, empty by default; hashes of the object leave it out."""
    return dataclasses.field(default_factory=dict, hash=False)


def _changed_fields(instance: Any) -> Iterator[Tuple[str, Any]]:
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if value:
            yield field.name, value


@dataclasses.dataclass(frozen=True, repr=False)
class OptionFile:
    """A file that an option points to, as an object; frozen.

    Attributes:
        OPTION: The option that takes its path.
        NAME: The file name in the vendor's manual.
        WHAT: Description of such a file for messages, with its article.
        READER: Name of the vendor's program that reads it.
    """

    OPTION: ClassVar[str]
    NAME: ClassVar[str]
    WHAT: ClassVar[str]
    READER: ClassVar[str] = "GE"

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in _changed_fields(self))
        return f"{type(self).__name__}({', '.join(fields)})"

    @classmethod
    def read(cls: Type[_File], path: PathLike) -> _File:
        """Read a file exactly as the vendor's reader does.

        Raises:
            ConfigError: If the vendor's reader refuses it; lists all faults with file, line,
                column and rule.
        """
        return cls.parse(cls._load(path), os.fsdecode(path))

    @classmethod
    def parse(cls: Type[_File], content: Union[str, bytes], name: str = "<text>") -> _File:
        """Read the content of a file as `read` does; ``name`` is for messages."""
        return cls._build(*cls._examine(name, content))

    @classmethod
    def check(cls, path: PathLike) -> Tuple[Finding, ...]:
        """List the content that the vendor's reader silently skips or changes.

        Raises:
            ConfigError: If the vendor's reader refuses the file, as for `read`.
        """
        return cls.check_text(cls._load(path), os.fsdecode(path))

    @classmethod
    def check_text(cls, content: Union[str, bytes], name: str = "<text>") -> Tuple[Finding, ...]:
        """Check the content of a file as `check` does; ``name`` is for messages."""
        source, _ = cls._examine(name, content)
        source.raise_errors(cls.OPTION)
        return source.warnings()

    @classmethod
    def examine(cls, path: PathLike) -> Tuple[Tuple[Finding, ...], Tuple[Finding, ...]]:
        """Return all errors and warnings about a file, even if the vendor's reader refuses it.

        Raises:
            ConfigError: If the file cannot be read.
        """
        source, _ = cls._examine(os.fsdecode(path), cls._load(path))
        return source.errors(), source.warnings()

    def text(self) -> str:
        """Format the content of the file for the vendor's reader."""
        raise NotImplementedError

    def write(self, path: PathLike, *, force: bool = False) -> None:
        """Write the file atomically: readers see the old content or the new one.

        Args:
            path: The path of the file; a link is followed.
            force: Whether to replace an existing file.

        Raises:
            ConfigError: If the file exists and ``force`` is False, or it cannot be written.
        """
        write_file(os.fsdecode(path), encode(self.text()), force=force)

    def store(self, folder: PathLike) -> str:
        """Write the file into ``folder``, under a name that holds a digest of its content.

        Returns:
            Its absolute path, for the option.

        Raises:
            ConfigError: If it cannot be written.
        """
        return store_file(os.fsdecode(folder), self.NAME, encode(self.text()))

    def path_in(self, folder: PathLike) -> str:
        """Return the path that `store` would write; write nothing."""
        return stored_path(os.fsdecode(folder), self.NAME, encode(self.text()))

    @classmethod
    def from_fields(cls: Type[_File], fields: Mapping[str, Any]) -> _File:
        """Make the object from a mapping of its fields, as in a YAML or JSON file.

        Raises:
            ConfigError: For an unknown field, or a value that the constructor refuses.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = [str(name) for name in fields if name not in names]
        if unknown:
            message = f"{cls.__name__} has no field {', '.join(map(repr, unknown))}."
            raise cls._unusable(message, f"Its fields are {', '.join(names)}.")
        try:
            return cls(**fields)
        except (TypeError, AttributeError):
            raise cls._unusable(f"{dict(fields)!r} does not fit {cls.__name__}.") from None

    def to_dict(self) -> Dict[str, Any]:
        """Return the fields that are set, as plain values for JSON; `from_fields` reads them."""
        return {name: _plain(value) for name, value in _changed_fields(self)}

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        """Read a file; add an error for refused content, and a warning for skipped content.

        Returns:
            The fields of the object, which are used if there is no error.
        """
        raise NotImplementedError

    @classmethod
    def fixed(cls, *_: Any, **__: Any) -> NoReturn:
        """Refuse the call: this method has been removed."""
        raise UnsupportedError(
            "OptionFile.fixed has been removed; the hints of check(path) say what to write."
        )

    fixed_with_remarks = fixed

    @classmethod
    def _examine(cls, name: str, content: Union[str, bytes]) -> Tuple[SourceFile, Dict[str, Any]]:
        source = SourceFile(name, content)
        fields = cls._read(source)
        source.note_encoding(cls.WHAT, cls.READER)
        return source, fields

    @classmethod
    def _unusable(cls, message: str, hint: Optional[str] = None) -> ConfigError:
        """Return the error for an object that no file can hold."""
        return ConfigError.from_problems([Finding(ERROR, message, hint, option=cls.OPTION)])

    def _freeze_words(
        self, field: str, kind: str, check: Optional[Callable[[str], None]] = None
    ) -> None:
        """Turn the value of a field into a tuple of distinct words.

        Args:
            field: The name of the field.
            kind: The kind of words for messages, in the plural.
            check: Raises ConfigError for a word that cannot be written; None accepts all.
        """
        given = getattr(self, field)
        is_list = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
        words = tuple(given) if is_list else ()
        if not is_list or not all(isinstance(word, str) for word in words):
            raise self._unusable(f"{field} is a list of {kind}, not {given!r}.")
        if check is not None:
            for word in words:
                check(word)
        object.__setattr__(self, field, tuple(dict.fromkeys(words)))

    def _copy_mapping(self, field: str, kind: str, read: Callable[[Any, Any], Any]) -> None:
        """Check the value of a field, and turn it into a dictionary of its own.

        Args:
            field: The name of the field.
            kind: The kind of values for messages, in the plural.
            read: Returns the value to store, given key and value, and raises ConfigError for an
                entry that cannot be written.
        """
        given = getattr(self, field)
        if not isinstance(given, Mapping):
            raise self._unusable(f"{field} is a mapping of {kind}, not {given!r}.")
        entries = {name: read(name, value) for name, value in given.items()}
        object.__setattr__(self, field, entries)

    @classmethod
    def _check_writable(cls, what: str, text: str, strict: bool = False) -> None:
        """Raise ConfigError for text that cannot be written; see `text.is_writable`."""
        if not is_writable(text, strict):
            raise cls._unusable(f"{what} has half a surrogate pair in it, which no file can hold.")

    @classmethod
    def _build(cls: Type[_File], source: SourceFile, fields: Dict[str, Any]) -> _File:
        source.raise_errors(cls.OPTION)
        return cls(**fields)

    @classmethod
    def _load(cls, path: PathLike) -> bytes:
        return load_file(os.fsdecode(path), cls.WHAT)


def _plain(value: Any) -> Any:
    """Turn tuples into lists, and objects into mappings of the fields that are set."""
    if dataclasses.is_dataclass(value):
        value = dict(_changed_fields(value))
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value

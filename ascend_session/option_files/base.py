"""`OptionFile`: what every file that an option points to can do."""

import dataclasses
import os
from typing import (
    Any,
    ClassVar,
    Dict,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.option_files.remarks import FileFindings, about_mark
from ascend_session.option_files.source import (
    Kind,
    Source,
    decoded,
    encoded,
    is_writable,
    read_content,
    store_content,
    stored_path,
    write_content,
)

__all__ = ["Brief", "Examined", "Frozen", "OptionFile", "PathLike", "check_text_of", "unusable"]

PathLike = Union[str, "os.PathLike[str]"]
_File = TypeVar("_File", bound="OptionFile")


class Brief:
    """Prints of a dataclass what is not its default."""

    def __repr__(self) -> str:
        of_self: Any = self
        fields = ((one, getattr(self, one.name)) for one in dataclasses.fields(of_self))
        said = (f"{one.name}={value!r}" for one, value in fields if value != one.default)
        return f"{type(self).__name__}({', '.join(said)})"


@dataclasses.dataclass(frozen=True, repr=False)
class OptionFile(Brief):
    """A file that an option points to, as an object; frozen.

    Attributes:
        OPTION: The option that takes its path.
        NAME: What the vendor's manual calls such a file.
        KIND: What it is and who reads it.
    """

    OPTION: ClassVar[str]
    NAME: ClassVar[str]
    KIND: ClassVar[Kind]

    @classmethod
    def read(cls: Type[_File], path: PathLike) -> _File:
        """Reads a file, exactly as the vendor's reader takes it.

        Raises:
            ConfigError: If the vendor's reader refuses it, with file, line, column and rule; all
                faults at once. And if the object could not say all that is in it, as it is not
                known here.
        """
        name = os.fspath(path)
        return cls._made(name, read_content(name, cls.KIND), fix=False)[0]

    @classmethod
    def parse(cls: Type[_File], content: Union[str, bytes], name: str = "<text>") -> _File:
        """Reads the content of a file; as `read`."""
        return cls._made(name, _bytes(content), fix=False)[0]

    @classmethod
    def check(cls, path: PathLike) -> Tuple[Finding, ...]:
        """What the vendor's reader skips in a file, or takes differently, without telling.

        Raises:
            ConfigError: As `read`.
        """
        name = os.fspath(path)
        return cls.check_text(read_content(name, cls.KIND), name)

    @classmethod
    def check_text(cls, content: Union[str, bytes], name: str = "<text>") -> Tuple[Finding, ...]:
        """As `check`, for the content of a file."""
        source, findings, _ = cls._looked(name, _bytes(content), fix=False)
        findings.raise_if_refused(source, cls.KIND, cls.OPTION)
        return findings.remarks()

    @classmethod
    def fixed(cls: Type[_File], path: PathLike) -> _File:
        """What a file says as a person reads it: without comments where none may be, and so on.

        ``fixed(path).write(path, force=True)`` makes a file that the vendor's reader takes.

        Raises:
            ConfigError: If the file cannot be read, or has faults of which it is not clear what is
                meant.
        """
        return cls.fixed_with_remarks(path)[0]

    @classmethod
    def fixed_with_remarks(cls: Type[_File], path: PathLike) -> Tuple[_File, Tuple[Finding, ...]]:
        """As `fixed`, and what there is to say of the file then: what it skips is not in it."""
        name = os.fspath(path)
        made, findings = cls._made(name, read_content(name, cls.KIND), fix=True)
        return made, findings.remarks()

    @classmethod
    def fixed_text(cls: Type[_File], content: Union[str, bytes], name: str = "<text>") -> _File:
        """As `fixed`, for the content of a file."""
        return cls._made(name, _bytes(content), fix=True)[0]

    def text(self) -> str:
        """The content of a file that says this, as the vendor's reader takes it."""
        raise NotImplementedError

    def write(self, path: PathLike, *, force: bool = False) -> None:
        """Writes a file; whoever opens it sees all of it, or what was there before.

        Args:
            path: Its name; a link is followed.
            force: Whether a file that is there may be replaced.

        Raises:
            ConfigError: If there is a file and ``force`` is not given, or it cannot be written.
        """
        write_content(os.fspath(path), encoded(self.text()), self.KIND, force)

    def store(self, folder: PathLike) -> str:
        """Puts the file into ``folder``, under a name that holds a digest of its content.

        Returns:
            Its absolute path, for the option.

        Raises:
            ConfigError: If it cannot be written.
        """
        content = encoded(self.text())
        return store_content(os.fspath(folder), self.NAME, content, self.KIND)

    def path_in(self, folder: PathLike) -> str:
        """The path that `store` gives it; nothing is written."""
        return stored_path(os.fspath(folder), self.NAME, encoded(self.text()))

    @classmethod
    def of(cls: Type[_File], fields: Mapping[str, Any]) -> _File:
        """Makes it of a mapping of its fields, as a YAML or JSON file has them.

        Raises:
            ConfigError: For a name that is no field, and as from the constructor.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [str(name) for name in fields if name not in known]
        if unknown:
            message = f"{cls.__name__} has no field {', '.join(map(repr, unknown))}."
            raise unusable(cls.OPTION, message, f"Its fields are {', '.join(known)}.")
        try:
            return cls(**fields)
        except (TypeError, AttributeError):
            message = f"{dict(fields)!r} are no fields of {cls.__name__}."
            raise unusable(cls.OPTION, message) from None

    def to_dict(self) -> Dict[str, Any]:
        """Its fields as JSON can hold them, without those that say nothing; see `of`."""
        said = _plain(self)
        assert isinstance(said, dict)
        return said

    @classmethod
    def examined(cls: Type[_File], path: PathLike, *, fix: bool = False) -> "Examined":
        """All there is to say about a file, without an error if the vendor's reader refuses it.

        Args:
            path: Its name.
            fix: Whether to take what a person means; see `fixed`.

        Raises:
            ConfigError: If the file cannot be read.
            UnsupportedError: If what it takes to read it is not installed.
        """
        name = os.fspath(path)
        source, findings, made = cls._looked(name, read_content(name, cls.KIND), fix)
        refused = findings.refusals(source, cls.KIND)
        is_whole = not refused and findings.unknown is None
        return Examined(made() if is_whole else None, refused, findings.remarks())

    @classmethod
    def _made(cls: Type[_File], name: str, content: bytes, fix: bool) -> Tuple[_File, FileFindings]:
        source, findings, made = cls._looked(name, content, fix)
        findings.raise_if_refused(source, cls.KIND, cls.OPTION)
        if findings.unknown is not None:
            message = f"{name}:{findings.unknown} It would be lost in an object of this package."
            raise unusable(cls.OPTION, message)
        return made(), findings

    @classmethod
    def _looked(cls, name: str, content: bytes, fix: bool) -> Tuple[Source, FileFindings, Any]:
        findings = FileFindings()
        source = decoded(name, content, fix)
        made = cls._understood(source, findings, fix)
        if source.mark is not None:
            findings.skip_all_for(*about_mark(source.mark, cls.KIND))
            if fix:
                findings.refuse((1, 1), *about_mark(source.mark, cls.KIND))
        return source, findings, made

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        """Reads ``source``; returns what makes the object, which is called if nothing is refused.

        Args:
            source: The text.
            findings: Where to note what is refused and what is skipped.
            fix: Whether to take what a person means where the vendor's reader does not.
        """
        raise NotImplementedError


class Examined(NamedTuple):
    """What was found in a file.

    Attributes:
        file: What it says; None if it is refused, or says something that is not known here.
        refused: Why the vendor's reader refuses it.
        remarks: What that reader skips, or takes differently, without telling.
    """

    file: Optional[OptionFile]
    refused: Tuple[Finding, ...]
    remarks: Tuple[Finding, ...]


class Frozen(Mapping[str, Any]):
    """A mapping that cannot change, with the order it was made in; equal mappings are equal."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def _plain(value: Any) -> Any:
    """Mappings, lists and plain values; of an object what is not the default."""
    if dataclasses.is_dataclass(value):
        fields = ((one, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {one.name: _plain(inside) for one, inside in fields if inside != one.default}
    if isinstance(value, Mapping):
        return {name: _plain(inside) for name, inside in value.items()}
    return [_plain(inside) for inside in value] if isinstance(value, tuple) else value


def unusable(option: str, message: str, hint: str = "") -> ConfigError:
    """The error for an object that no file can say."""
    return ConfigError.of([Finding(ERROR, message, hint or None, option=option)])


def check_text_of(option: str, what: str, text: str, strict: bool = False) -> None:
    """Raises ConfigError for text that no file gives back as it was written; see `is_writable`."""
    if not is_writable(text, strict):
        raise unusable(option, f"{what} has half a surrogate pair in it, which no file can hold.")


def _bytes(content: Union[str, bytes]) -> bytes:
    """The bytes of text; half a surrogate pair becomes three bytes that are no UTF-8."""
    if isinstance(content, bytes):
        return content
    return encoded(content) if is_writable(content) else content.encode("utf-8", "surrogatepass")

"""The flat view of a configuration that rules look at."""

from typing import AbstractSet, Any, Iterator, Mapping, Optional

__all__ = ["Entry", "UnreadableError"]


class UnreadableError(Exception):
    """A rule asked for an option whose value was already refused; the rule does not apply."""


class Entry(Mapping[str, Any]):
    """Options by vendor key; asking for one that was refused ends the rule that asks.

    Attributes:
        environ: The environment that host rules compare the options with.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        unreadable: AbstractSet[str] = frozenset(),
        environ: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._values = values
        self._unreadable = unreadable
        self.environ: Mapping[str, str] = {} if environ is None else environ

    def __getitem__(self, key: str) -> Any:
        if key in self._unreadable:
            raise UnreadableError(key)
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        if key in self._unreadable:
            raise UnreadableError(key)
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def said(self, key: str) -> str:
        """``key=value``, as messages show it."""
        return f"{key}={self[key]!r}"

    def is_on(self, key: str) -> bool:
        """Whether a switch was set to True (unset switches are all off in the adapter)."""
        return self.get(key) is True

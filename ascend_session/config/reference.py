"""What the reference says of one option, as plain data: the command draws it.

`catalogue` makes it from the definitions and the rules; `schema` makes the JSON schema of it.
"""

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple

__all__ = ["SCOPES", "OptionReference", "OptionRule"]

# What the words for a scope mean (options_notes, section 0)
SCOPES = {
    "init": "read only by the first initialisation of a process; later values are ignored",
    "session": "read for each session",
    "graph": "read for each graph",
    "pass": "read by the adapter's own graph passes, for each graph",
    "NPURunConfig": "no key of the NpuOptimizer entry; NPURunConfig reads it",
    "unread": "nothing reads it",
}


@dataclass(frozen=True)
class OptionRule:
    """One rule that looks at an option.

    Attributes:
        sentence: What it demands.
        source: Where the fact stands.
        when: ``construction``, ``host`` (`AscendConfig.check_host`) or ``opening`` of a system.
    """

    sentence: str
    source: str
    when: str


@dataclass(frozen=True)
class OptionReference:
    """All that is known of one option.

    Attributes:
        name: The field's name in its class.
        path: Where it stands, for example ``dump_config.dump_path``.
        group: The heading it belongs to.
        doc: What it does, in one sentence.
        write: How it is written in Python.
        write_file: How it is written in a YAML file; None for Python objects.
        key: The key in the NpuOptimizer entry, None for an option that never becomes one.
        field: The protobuf field of that key: ``s``, ``i`` or ``b``.
        types: Python types in words.
        values: Allowed values, or types and range, on one line.
        allowed: All values there are; empty if they cannot be counted up.
        low: Smallest number, None without a limit.
        high: Largest number, None without a limit.
        unit: ``bytes``, ``s`` or ``ms``.
        grammar: What text or structure must look like, in sentences.
        members: The members of a JSON object and what each may say.
        adapter_default: What the adapter takes when nothing is said; None if it has none.
        run_config_default: What NPURunConfig writes where that differs, else None.
        product_default: What the product uses when nothing is sent.
        scope: When it is read, in one word; `SCOPES` has the sentence.
        also: Further scopes it is sent at.
        sticky: Whether its value stays in the process after its session has gone.
        applies_to: Products or uses that it is limited to.
        deprecated: Whether the vendor's manual says so.
        dead: Whether nothing in the stack reads it any more.
        use: What to use instead.
        rules: What it demands of other options and of the host.
        seeds: Titles of the vendor's documents that describe it.
        schema: The JSON schema of its value.
    """

    name: str
    path: str
    group: str
    doc: str
    write: str
    write_file: Optional[str]
    key: Optional[str]
    field: Optional[str]
    types: str
    values: str
    allowed: Tuple[Any, ...]
    low: Optional[int]
    high: Optional[int]
    unit: Optional[str]
    grammar: Optional[str]
    members: Dict[str, str]
    adapter_default: Any
    run_config_default: Any
    product_default: Any
    scope: str
    also: Tuple[str, ...]
    sticky: bool
    applies_to: Optional[str]
    deprecated: bool
    dead: bool
    use: Optional[str]
    rules: Tuple[OptionRule, ...]
    seeds: Tuple[str, ...]
    schema: Dict[str, Any]

    @property
    def product_words(self) -> Optional[str]:
        """The product's default: as Python writes it if it is a value, else as it is described."""
        default = self.product_default
        return repr(default) if default in self.allowed else default and str(default)

    @property
    def default(self) -> Optional[str]:
        """What holds when nothing is said, in words; None if nothing is known to."""
        words = self.product_words
        if self.adapter_default is not None:
            words = repr(self.adapter_default)
        if words is not None and self.unit is not None:
            words = f"{words} {self.unit}"
        if self.run_config_default is None:
            return words
        ours = repr(self.run_config_default)
        return f"{ours} (NPURunConfig)" if words is None else f"{words} (NPURunConfig: {ours})"

    def to_dict(self) -> Dict[str, Any]:
        """The attributes as JSON can hold them, with the sentence for the scope."""
        return {**asdict(self), "scope_meaning": SCOPES[self.scope]}

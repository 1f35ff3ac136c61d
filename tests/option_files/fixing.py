"""What `OptionFile.fixed` makes of a content, without a file of one's own."""

import tempfile
from typing import Any, Type, Union

from ascend_session.option_files import OptionFile
from ascend_session.text import is_writable


def fix(kind: Type[OptionFile], content: Union[str, bytes]) -> Any:
    """Return what a file with this content says to a person."""
    if isinstance(content, str):
        content = content.encode(
            "utf-8", "surrogateescape" if is_writable(content) else "surrogatepass"
        )
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return kind.fixed(file.name)

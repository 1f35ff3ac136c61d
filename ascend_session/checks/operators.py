"""Whether the adapter finds its list of supported operators."""

from typing import Iterator, Mapping

from ascend_session.checks.finding import ERROR, OK, Finding
from ascend_session.hardware.operators import OPP_VARIABLE, operator_list

__all__ = ["check_operators"]

_CHECK = "operators"


def check_operators(environ: Mapping[str, str], root: str) -> Iterator[Finding]:
    """Reads the list as the adapter does.

    Args:
        environ: The environment, for ``ASCEND_OPP_PATH``.
        root: Root of the host.
    """
    found = operator_list(environ, root)
    given = environ.get(OPP_VARIABLE)
    variable = f"{OPP_VARIABLE} is not set" if given is None else f"{OPP_VARIABLE}={given!r}"
    if found.operators:
        said = f"The adapter's list of supported operators in {found.folder} has "
        yield Finding(_CHECK, OK, f"{said}{found.operators}.")
        return
    said = (
        f"The adapter finds no list of supported operators in {found.folder} ({variable}): every "
        f"graph would run on the CPU without a word. It looks for {found.files[0]}."
    )
    yield Finding(
        _CHECK, ERROR, said, f"Source the toolkit's set_env.sh, which sets {OPP_VARIABLE}."
    )

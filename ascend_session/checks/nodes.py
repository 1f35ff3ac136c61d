"""Whether the nodes that a process opens are there, and may be opened.

Source: launch_facts.md, B1.
"""

from typing import Iterator, Sequence

from ascend_session.checks.finding import ERROR, OK, Finding, listed
from ascend_session.hardware.nodes import control_node_notes, node_note
from ascend_session.ids import PhysicalDeviceId

__all__ = ["check_nodes"]

_CHECK = "device nodes"


def check_nodes(root: str, physical: Sequence[PhysicalDeviceId]) -> Iterator[Finding]:
    """Looks at the three control nodes and the nodes of these devices.

    Args:
        root: Root of the host.
        physical: The devices; with none nothing is looked at.
    """
    if not physical:
        return
    found = [*control_node_notes(root), *(node_note(root, device) for device in physical)]
    missing = [note for note in found if note]
    for note in missing:
        said, _, hint = note.partition(". ")
        yield Finding(_CHECK, ERROR, f"{said.rstrip('.')}.", hint or None)
    if not missing:
        said = (
            f"This user may read and write the nodes of device(s) {listed(physical)} and the "
            "three control nodes."
        )
        yield Finding(_CHECK, OK, said)

"""From a table's JSON to what it says: which format it is, and what is wrong with its fields."""

from typing import Any, List, Mapping, NamedTuple, Tuple

from ascend_session.cluster.rank_table.concise import read_concise
from ascend_session.cluster.rank_table.contents import (
    COMPLETED,
    LAB,
    TEMPLATE_2,
    V1_0,
    V1_2,
    Contents,
)
from ascend_session.cluster.rank_table.fields import Fields, shown
from ascend_session.cluster.rank_table.findings import WARNING, Findings
from ascend_session.cluster.rank_table.groups import read_lab, read_template_2
from ascend_session.cluster.rank_table.parts import TableServer
from ascend_session.cluster.rank_table.source import parse
from ascend_session.errors import JobError

__all__ = ["Reading", "read"]

# What other versions are for; source: launch_facts.md, A1.
_OTHERS = {
    "1.1": "jobs of processors and host CPUs together",
    "2.0": "A5 (950), with rank_list and a topology file",
}
_TAKEN = (
    "Versions 1.0 and 1.2 are read here, and the older formats, which have a group_list and no "
    "version."
)


class Reading(NamedTuple):
    """What was read.

    Attributes:
        contents: What the table says; of fields that were wrong only what is clear.
        found: What is wrong with the fields.
        complete: Whether every device could be read.
    """

    contents: Contents
    found: Findings
    complete: bool


def read(name: str, text: str, super_pods: bool = True) -> Reading:
    """Reads the text of a table.

    Args:
        name: What messages call it.
        text: The text.
        super_pods: Whether HCCL reads superpods; what is wrong with them is a warning otherwise.

    Raises:
        JobError: If it is no JSON, no object, or of a version that is not read here.
    """
    document = parse(name, text)
    table = document.value
    if not isinstance(table, dict):
        raise JobError(
            f"{name}: is {shown(table)}; a rank table is an object with status and server_list.",
            hint="`ascend-session ranktable make` makes one.",
        )
    fields = Fields()
    for place, said in document.oddities:
        fields.found.add(WARNING, "text", place, said)
    kind, servers = _servers(name, fields, table, super_pods)
    status = fields.text(table, "status", "")
    # Without one the table is refused already, and its status is not worth a second sentence.
    contents = Contents(kind, COMPLETED if status is None else status, tuple(servers))
    return Reading(contents, fields.found, fields.complete)


def _servers(
    name: str, fields: Fields, table: Mapping[str, Any], super_pods: bool
) -> Tuple[str, List[TableServer]]:
    if "version" not in table:
        if "group_list" not in table and "server_list" in table:
            raise JobError(
                f"{name}: has a server_list but no version, so that HCCL reads it as template 2, "
                "and refuses it.",
                hint='Write "version": "1.0".',
            )
        if "deploy_mode" in table:
            return LAB, read_lab(fields, table)
        return TEMPLATE_2, read_template_2(fields, table)
    version = fields.text(table, "version", "")
    if version in _OTHERS:
        raise JobError(f"{name}: has version {version}, which is for {_OTHERS[version]}. {_TAKEN}")
    if version not in (V1_0, V1_2):
        raise JobError(
            f"{name}: version is {shown(table['version'])}, which HCCL does not take. {_TAKEN}",
            hint='Write "version": "1.0".',
        )
    return version, read_concise(fields, table, version, super_pods)

"""Who this process is in its job: the environment, schedulers, pods, rank tables.

Names are loaded when they are first used; `rank_table` is a façade of its own.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.cluster.job import Job as Job
    from ascend_session.cluster.kubernetes import MOUNTED as MOUNTED
    from ascend_session.cluster.kubernetes import find_pod_names as find_pod_names
    from ascend_session.cluster.member import join as join
    from ascend_session.cluster.member import read_members as read_members
    from ascend_session.cluster.schedulers import CHOICE as CHOICE
    from ascend_session.cluster.schedulers import count_allocated_nodes as count_allocated_nodes
    from ascend_session.cluster.schedulers import read_identity as read_identity
    from ascend_session.cluster.schedulers import read_schedulers as read_schedulers
    from ascend_session.cluster.variables import RANK_FOLDER as RANK_FOLDER
    from ascend_session.cluster.variables import RENDEZVOUS as RENDEZVOUS
    from ascend_session.cluster.variables import has_parameter_servers as has_parameter_servers
    from ascend_session.cluster.variables import read_number as read_number
    from ascend_session.cluster.variables import read_size as read_size
    from ascend_session.cluster.variables import read_task_type as read_task_type
    from ascend_session.cluster.variables import uses_collectives as uses_collectives

_NAMES = {
    "job": ("Job",),
    "kubernetes": ("MOUNTED", "find_pod_names"),
    "member": ("join", "read_members"),
    "schedulers": (
        "CHOICE",
        "count_allocated_nodes",
        "read_identity",
        "read_schedulers",
    ),
    "variables": (
        "RANK_FOLDER",
        "RENDEZVOUS",
        "has_parameter_servers",
        "read_number",
        "read_size",
        "read_task_type",
        "uses_collectives",
    ),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())

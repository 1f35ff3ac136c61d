"""What Kubernetes gives the pods of a job: a mounted rank table, and who each of them is.

Source: launch_facts.md, A4 (template 2 goes by POD_NAME) and A7 (mind-cluster's operator mounts the
table, and names servers by the addresses of their hosts, which the pods get as XDL_IP or HOST_IP).
"""

import os
from typing import Dict, Mapping, Optional

from ascend_session.hardware.nodes import host_root

__all__ = ["MOUNTED", "in_pod", "mounted_table", "pod_names"]

MOUNTED = "/user/serverid/devindex/config/hccl.json"
# The last ones are names that others use too.
_OWN, _COMMON = ("POD_NAME", "XDL_IP", "POD_IP"), ("HOST_IP", "NODE_IP")


def in_pod(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in a pod; Kubernetes tells each where its service is."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def mounted_table(environ: Mapping[str, str]) -> Optional[str]:
    """The table that the job's controller has mounted; None if there is none."""
    path = os.path.join(host_root(environ), MOUNTED.lstrip("/"))
    return path if os.path.isfile(path) else None


def pod_names(environ: Mapping[str, str]) -> Dict[str, str]:
    """What this pod and its host are called, and the variable that says so."""
    names = (*_OWN, *_COMMON) if in_pod(environ) else _OWN
    return {environ[name]: name for name in names if environ.get(name)}

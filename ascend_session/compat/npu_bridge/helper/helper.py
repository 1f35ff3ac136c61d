"""``npu_bridge.helper.helper``: the adapter's library of operators, here one that computes on CPUs.

Source: helper.py.
"""

from ascend_session.compat.library import GeneratedOperators

__all__ = ["get_gen_ops", "npu_bridge_handle", "version"]

npu_bridge_handle = GeneratedOperators()

version = "v1.15.0"


def get_gen_ops() -> GeneratedOperators:
    """The operators of the adapter's library."""
    return npu_bridge_handle

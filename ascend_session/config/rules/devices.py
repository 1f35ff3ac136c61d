"""Rules about devices, collectives and time limits."""

from ascend_session.config.entry import Entry
from ascend_session.config.rules._rule import Findings, RuleBook, warning

__all__ = ["RULES", "atlas_timeout"]

RULES = RuleBook()

_STEP = 68  # seconds; HCCL on Atlas training products counts in these (launch_facts A9)
_ATLAS_MAX = 17340


def atlas_timeout(seconds: int) -> int:
    """What Atlas training products make of an hccl_timeout, in seconds."""
    return min(max(seconds // _STEP * _STEP, _STEP), _ATLAS_MAX)


@RULES.add("hccl_timeout", source="options_notes g13; launch_facts A9; options.json")
def hccl_timeout_is_rounded(entry: Entry) -> Findings:
    """Atlas training products round hccl_timeout down to a multiple of 68 seconds."""
    asked = entry.get("hccl_timeout")
    if asked is None:
        return
    if asked == 0:
        yield warning(
            "hccl_timeout",
            "hccl_timeout=0 means 'never' on Ascend 950, A3 and A2; Atlas training products take "
            f"1 to {_ATLAS_MAX}.",
        )
    elif atlas_timeout(asked) != asked:
        yield warning(
            "hccl_timeout",
            f"hccl_timeout={asked} becomes {atlas_timeout(asked)} s on Atlas training products, "
            f"which take multiples of {_STEP} up to {_ATLAS_MAX}.",
        )


@RULES.add("stream_sync_timeout", "hccl_timeout", source="options_notes a37; seed 000")
def stream_sync_outlasts_collectives(entry: Entry) -> Findings:
    """In a cluster stream_sync_timeout (ms) must be longer than hccl_timeout (s)."""
    stream, hccl = entry.get("stream_sync_timeout", -1), entry.get("hccl_timeout")
    if stream > 0 and hccl is not None and (hccl == 0 or stream <= hccl * 1000):
        yield warning(
            "stream_sync_timeout",
            f"stream_sync_timeout={stream} ms is not longer than hccl_timeout={hccl} s; in a "
            "cluster the streams give up before the collectives do.",
        )


@RULES.add("local_rank_id", "local_device_list", source="options_notes a36; seed 000")
def preprocessing_needs_both(entry: Entry) -> Findings:
    """local_rank_id and local_device_list go together."""
    if ("local_rank_id" in entry) != ("local_device_list" in entry):
        said, missing = "local_rank_id", "local_device_list"
        if said not in entry:
            said, missing = missing, said
        yield warning(said, f"{entry.said(said)} is meant to be used with {missing}.")


@RULES.add(
    "experimental_logical_device_id",
    "experimental_logical_device_cluster_deploy_mode",
    source="options_notes a48; npu_config.py",
)
def logical_device_needs_single(entry: Entry) -> Findings:
    """logical_device_id is read only with logical_device_cluster_deploy_mode='SINGLE'."""
    mode = entry.get("experimental_logical_device_cluster_deploy_mode")
    if "experimental_logical_device_id" in entry and mode != "SINGLE":
        yield warning(
            "logical_device_id",
            "logical_device_id has no effect without logical_device_cluster_deploy_mode='SINGLE'.",
        )

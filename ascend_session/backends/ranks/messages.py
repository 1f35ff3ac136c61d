"""What the ranks and the service say to each other: JSON, without generated code."""

import json
from typing import Any, Dict, List

from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.verdict import Wait

__all__ = [
    "ATTEND",
    "CHANNEL_OPTIONS",
    "KEEPALIVE",
    "SAY",
    "SERVER_OPTIONS",
    "SERVICE",
    "decoded",
    "encoded",
    "operation_in",
    "waits_in",
]

SERVICE = "ascend_session.Ranks"
ATTEND = "Attend"  # a rank joins and hears what happens: one request, a stream of events
SAY = "Say"  # a rank says something, and has its short answer at once

CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # http_proxy is not asked for the loopback interface
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own, whose end means this rank's
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),  # rank 0 may come later than the others
    ("grpc.max_reconnect_backoff_ms", 500),
]
SERVER_OPTIONS = [
    ("grpc.so_reuseport", 0),  # a second process that says it is rank 0 must fail
]
# Between machines: one that vanishes says nothing. HCCL, too, gives a rank up after 30 s without a
# heartbeat (launch_facts.md, A9). On one machine the end of a process ends its connections.
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10000),
    ("grpc.keepalive_timeout_ms", 20000),
    ("grpc.http2.ping_timeout_ms", 20000),  # else a minute, whatever the line above says
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
]


def encoded(message: Dict[str, Any]) -> bytes:
    """The message as it travels."""
    return json.dumps(message).encode("utf-8")


def decoded(text: bytes) -> Dict[str, Any]:
    """The message that came.

    Raises:
        ValueError: If it is none.
    """
    message = json.loads(text.decode("utf-8"))
    if not isinstance(message, dict):
        raise ValueError("a message is an object")
    return message


def operation_in(fields: List[Any]) -> Operation:
    """The operation, which JSON has made a list."""
    key, name, ranks, signature = fields
    return Operation(str(key), str(name), tuple(int(rank) for rank in ranks), str(signature))


def waits_in(rank: int, fields: List[Any]) -> List[Wait]:
    """In what a rank says that it waits."""
    return [Wait(rank, operation_in(operation), int(count)) for operation, count in fields]

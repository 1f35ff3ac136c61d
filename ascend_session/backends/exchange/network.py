"""Authenticated connections between the nodes of a stub job: byte messages both ways over gRPC.

gRPC brings the deadlines, keepalive, flow control, size limits and TLS. What is added here is that
both sides prove that they know the job's key. The proofs travel in the metadata of two calls, so
that no message is ever read of a caller who has not proved anything:

1. ``Challenge``: the listener answers with a nonce, of which it remembers nothing.
2. ``Connect``: the caller sends that nonce, a nonce and a name of its own, and HMAC-SHA256 over
   them. Only a caller with the right proof gets that of the listener, so that a stranger has
   nothing to try keys on. This call stays open and is the connection.

Without TLS this decides who is let in; it neither hides nor signs what is sent afterwards.
"""

import contextlib
import functools
import hmac
import importlib
import itertools
import logging
import os
import queue
import socket
import struct
import threading
import time
from concurrent import futures
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ascend_session.backends.exchange.credentials import SECRET, Credentials, TlsFiles, sign
from ascend_session.cluster.coordinator import is_address, is_loopback
from ascend_session.errors import InitializationError

MESSAGE_LIMIT = 4 << 20  # bytes
KEEPALIVE_S = 30.0  # a machine that is silent for so long has vanished; HCCL's heartbeat, too

_SERVICE = "ascend_session.Exchange"
_NONCE, _CALLER_NONCE, _NAME, _PROOF = "nonce-bin", "caller-nonce-bin", "name-bin", "proof-bin"
_NONCE_AGE_S = 30.0
_ATTEMPT_S = 10.0  # that a listener gets to answer; then another attempt is made
_RETRY_S = 0.1
_STOP_S = 5.0  # that a listener gets to end
# After these a caller tries again, unless TLS itself has failed.
_TEMPORARY = ("UNAVAILABLE", "CANCELLED", "ABORTED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED")
_TLS_FAILURE = "SSL_ERROR"
_MAX_CALLS = 288  # at a time; of a stranger each ends at once
_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_metadata_size", 4096),
    ("grpc.absolute_max_metadata_size", 8192),
)
_CALLER_OPTIONS = (
    *_OPTIONS,
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a TCP connection of its own
    ("grpc.initial_reconnect_backoff_ms", 50),  # the listener may come later
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),  # and so may its name
)
_LISTENER_OPTIONS = (
    *_OPTIONS,
    ("grpc.so_reuseport", 0),  # a second process that listens there must fail
    ("grpc.max_concurrent_streams", 4),  # this and the rest: what a stranger may hold
    ("grpc.max_allowed_incoming_connections", _MAX_CALLS + 96),
    ("grpc.server_handshake_timeout_ms", 10000),
    ("grpc.max_connection_idle_ms", 10000),
)

_logger = logging.getLogger(__name__)
_numbers = itertools.count(1)


class Connection:
    """A connection to another node, of which both sides have proved themselves.

    Any thread may send and close. One thread iterates over what arrives, until the end.

    Attributes:
        peer: The name that the other node has given itself.
        number: Greater than that of all connections that were made before in this process.
        abort: Ends the connection at once.
    """

    def __init__(self) -> None:
        self.peer = ""
        self.number = next(_numbers)
        self.abort: Callable[[], Any] = self.close
        self._incoming: Iterator[bytes] = iter(())
        self._outbox: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()

    def send(self, message: bytes) -> None:
        """Queue a message of at most `MESSAGE_LIMIT`; it is lost if the connection has ended."""
        self._outbox.put(message)

    def close(self) -> None:
        """Begin to end the connection: what is queued is sent, and then the other side ends it."""
        self._outbox.put(None)

    def __iter__(self) -> Iterator[bytes]:
        """Give each message that arrives, in order."""
        try:
            yield from self._incoming
        except import_grpc().RpcError as error:
            _logger.debug("The connection to %s broke: %s", self.peer, error)
        finally:
            self.close()

    def _outgoing(self) -> Iterator[bytes]:
        return iter(self._outbox.get, None)


@contextlib.contextmanager
def connect(
    address: str, name: str, credentials: Credentials, timeout_s: float
) -> Iterator[Connection]:
    """Connect to the listener at an address, which may come later; leaving the block ends it.

    Args:
        address: Where it listens, ``host:port``.
        name: What this node is called, in at most 200 bytes.
        credentials: What this node proves itself with.
        timeout_s: How long the listener may take to come.

    Raises:
        InitializationError: If what answers is not a node of this job, or nothing does in time.
    """
    grpc = import_grpc()
    options = [*_CALLER_OPTIONS, *_keepalive(address)]
    if credentials.tls is None:
        channel = grpc.insecure_channel(address, options=options)
    else:
        ca, certificate, private_key = credentials.tls
        tls = grpc.ssl_channel_credentials(ca, private_key, certificate)
        channel = grpc.secure_channel(address, tls, options=options)
    deadline, attempt = time.monotonic() + timeout_s, ""
    with contextlib.closing(channel):
        while True:
            left_s = min(max(deadline - time.monotonic(), 0.0), _ATTEMPT_S)
            try:
                connection = _shake_hands(channel, name.encode(), credentials.key, left_s)
                break
            except grpc.RpcError as failure:
                code, details = failure.code().name, failure.details() or ""
            except PermissionError:
                code, details = "UNAUTHENTICATED", ""
            if code != "DEADLINE_EXCEEDED" or not attempt:  # an attempt cut short says nothing
                attempt = f"{code}: {details!r}"[:500]
            if code not in _TEMPORARY or _TLS_FAILURE in details:
                raise _refusal(address, code, attempt)
            if time.monotonic() > deadline:  # never earlier: the ranks say it better
                raise InitializationError(
                    f"The other node has not answered within {timeout_s:g} s ({attempt})."
                )
            time.sleep(_RETRY_S)
        yield connection


def _shake_hands(channel: Any, name: bytes, key: bytes, timeout_s: float) -> Connection:
    """Prove this node, and have the other one prove itself.

    Raises:
        grpc.RpcError: If the listener is not there, or refuses.
        PermissionError: If it lets this node in, but has not proved that it knows the key.
    """
    challenge = channel.stream_stream(f"/{_SERVICE}/Challenge")(iter(()), timeout=timeout_s)
    nonce = dict(challenge.initial_metadata() or ()).get(_NONCE, b"")
    if challenge.code() is not import_grpc().StatusCode.OK:
        raise challenge
    fields = {_NONCE: nonce, _CALLER_NONCE: os.urandom(32), _NAME: name}
    proof = sign(key, b"caller", *fields.values())
    connection = Connection()
    call = channel.stream_stream(f"/{_SERVICE}/Connect")(
        connection._outgoing(), metadata=(*fields.items(), (_PROOF, proof))
    )
    # The call has no deadline, for it is to last; what has to come soon is the answer.
    expiry = threading.Timer(timeout_s, call.cancel)
    expiry.daemon = True
    expiry.start()
    try:
        answer = dict(call.initial_metadata() or ())
        if _PROOF not in answer and call.code():  # the code comes when the call has ended
            raise call
        peer = answer.get(_NAME, b"")
        if not hmac.compare_digest(
            answer.get(_PROOF, b""), sign(key, b"listener", *fields.values(), peer)
        ):
            raise PermissionError
    except BaseException:
        connection.close()
        call.cancel()
        raise
    finally:
        expiry.cancel()
    connection.peer, connection.abort = peer.decode("utf-8", "replace"), call.cancel
    connection._incoming = call
    return connection


def _refusal(address: str, code: str, attempt: str) -> InitializationError:
    if code == "UNAUTHENTICATED":
        return InitializationError(
            f"The nodes of another job, or of one with another secret, meet at {address}.",
            hint=f"Give all nodes of a job the same JOB_ID, and the same secret ({SECRET}).",
        )
    return InitializationError(
        f"What answers at {address} is not a node of this job, or uses TLS differently ({attempt})."
    )


class Listener:
    """Listens at an address for other nodes of the job.

    Args:
        address: ``host:port``; port 0 takes a free one.
        name: What this node is called, in at most 200 bytes.
        credentials: What this node proves itself with, and a caller has to know.
        serve: Called with each new connection, in a thread of it.

    Attributes:
        address: Where it listens, with the real port.

    Raises:
        InitializationError: If this process cannot listen there.
    """

    def __init__(
        self,
        address: str,
        name: str,
        credentials: Credentials,
        serve: Callable[[Connection], None],
    ) -> None:
        self._name = name.encode()
        self._key = credentials.key
        self._serve = serve
        self._nonces = _Nonces()
        grpc = import_grpc()
        self._server = grpc.server(
            _DaemonThreads(),
            options=[*_LISTENER_OPTIONS, *_keepalive(address)],
            maximum_concurrent_rpcs=_MAX_CALLS,
        )
        # gRPC reads the messages of a stream only when its handler asks for them.
        stream = grpc.stream_stream_rpc_method_handler
        handlers = {"Challenge": stream(self._challenge), "Connect": stream(self._connect)}
        handler = grpc.method_handlers_generic_handler(_SERVICE, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self.address = self._bind(address, credentials.tls)
        self._server.start()

    def close(self) -> None:
        """Stop listening, and cut all connections."""
        self._server.stop(None).wait(_STOP_S)

    def _bind(self, address: str, tls: Optional[TlsFiles]) -> str:
        host, _, port = address.rpartition(":")
        where = probe = f"127.0.0.1:{port}" if host == "localhost" else address
        if not is_loopback(host) and not is_address(host.strip("[]")):
            # A name may mean another address here than on the other nodes: then listen at all. Of
            # these gRPC leaves out IPv6 where there is none.
            where, probe = f"[::]:{port}", f"0.0.0.0:{port}"
        reason, number = _bind_error(probe), 0
        try:
            if reason is None and tls is None:
                number = self._server.add_insecure_port(where)
            elif reason is None and tls is not None:
                pair = (tls.private_key, tls.certificate)
                server_credentials = import_grpc().ssl_server_credentials([pair], tls.ca, True)
                number = self._server.add_secure_port(where, server_credentials)
        except RuntimeError as error:
            reason = str(error)
        if not number:
            raise InitializationError(
                f"This process cannot listen at {address} for the other nodes: "
                f"{reason or 'gRPC does not say why'}."
            )
        return f"{host}:{number}"

    def _challenge(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.send_initial_metadata(((_NONCE, self._nonces.issue()),))
        return iter(())

    def _connect(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        status = import_grpc().StatusCode
        given = dict(context.invocation_metadata())
        fields = [given.get(key, b"") for key in (_NONCE, _CALLER_NONCE, _NAME)]
        nonce, _, name = fields
        if not self._nonces.is_valid(nonce):
            context.abort(status.ABORTED, "The nonce is none of this listener, or too old.")
        if not hmac.compare_digest(given.get(_PROOF, b""), sign(self._key, b"caller", *fields)):
            context.abort(status.UNAUTHENTICATED, "The proof is wrong.")
        if not self._nonces.use(nonce):
            context.abort(status.ABORTED, "The nonce has been used.")
        proof = sign(self._key, b"listener", *fields, self._name)
        context.send_initial_metadata(((_NAME, self._name), (_PROOF, proof)))
        connection = Connection()
        connection.peer, connection.abort = name.decode("utf-8", "replace"), context.cancel
        connection._incoming = requests
        if not context.add_callback(connection.close):
            return iter(())  # the caller has given up meanwhile
        start_thread(self._serve, connection)
        return connection._outgoing()


class _Nonces:
    """A listener's nonces: each is valid once, and only those that were used are remembered."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._used: Dict[bytes, float] = {}
        self._lock = threading.Lock()

    def issue(self) -> bytes:
        body = struct.pack(">d", time.monotonic()) + os.urandom(16)
        return body + sign(self._secret, body)

    def is_valid(self, nonce: bytes) -> bool:
        body, seal = nonce[:24], nonce[24:]
        if not hmac.compare_digest(seal, sign(self._secret, body)):
            return False
        (issued,) = struct.unpack_from(">d", body)
        return bool(time.monotonic() - issued < _NONCE_AGE_S)

    def use(self, nonce: bytes) -> bool:
        """Say whether a valid nonce, which came with a right proof, is used for the first time."""
        now = time.monotonic()
        with self._lock:
            is_first = nonce not in self._used
            self._used[nonce] = now
            self._used = {n: at for n, at in self._used.items() if now - at < _NONCE_AGE_S}
            return is_first


class _DaemonThreads(futures.Executor):
    """A thread for each call: few calls last, and the others end at once.

    The standard library's pool would keep the interpreter from ending while a connection is open.
    """

    def submit(self, *call: Any, **named: Any) -> Any:
        """Run a function, the first argument, with the others in a thread of its own."""
        future: Any = futures.Future()

        def run() -> None:
            try:
                call[0](*call[1:], **named)
            finally:
                future.set_result(None)

        start_thread(run)
        return future


@functools.lru_cache(maxsize=None)
def import_grpc() -> Any:
    """Import gRPC without handlers for ``fork`` and without its own log on stderr.

    A child that a rank forks to load data has no part in the connections, and newer releases write
    a line to stderr at each fork, or end the child now and then: their handlers start threads in
    it, which find their descriptors closed. Where somebody else has imported gRPC before, with
    those handlers, they stay. The child keeps the sockets open, though, so that they do not end
    with the rank: who has to know that at once watches its pid as well; between machines the
    keepalive tells, which no child answers. And any stranger could fill the log on stderr.
    """
    settings = {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_VERBOSITY": "NONE"}
    added = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(added)
    try:
        grpc = importlib.import_module("grpc")
        grpc.insecure_channel("localhost:1").close()  # some releases read the variables only now
        return grpc
    finally:
        for name in added:
            os.environ.pop(name, None)


def _keepalive(address: str) -> List[Tuple[str, int]]:
    """Notice a machine that says nothing; on this one the end of a process ends its connections."""
    if is_loopback(address.rpartition(":")[0].strip("[]")):
        return []
    milliseconds = int(1000 * KEEPALIVE_S)
    return [
        ("grpc.keepalive_time_ms", milliseconds // 3),
        ("grpc.keepalive_timeout_ms", milliseconds * 2 // 3),
        ("grpc.http2.ping_timeout_ms", milliseconds * 2 // 3),  # else a minute, whatever is above
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", milliseconds // 6),
    ]


def _bind_error(address: str) -> Optional[str]:
    """Ask the system whether one can listen there; gRPC tells the reason only on stderr."""
    host, _, port = address.rpartition(":")
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        return str(error.strerror)
    return None


def start_thread(function: Callable[..., None], *args: Any) -> None:
    """Call a function in a thread that does not keep the process from ending."""
    name = "ascend-session-network"
    threading.Thread(target=function, args=args, name=name, daemon=True).start()

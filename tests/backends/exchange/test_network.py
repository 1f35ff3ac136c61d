"""Connections between nodes: real listeners on the loopback interface, and strangers at them."""

import contextlib
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import psutil
import pytest

from ascend_session.backends.exchange import credentials as reading
from ascend_session.backends.exchange import network
from ascend_session.backends.exchange.credentials import Credentials, TlsFiles, read_credentials
from ascend_session.errors import InitializationError, JobError
from tests.certificates import make_authorities

_ROOT = Path(__file__).resolve().parents[3]
_PATIENCE_S = 60.0  # for what happens at once
_KEY = read_credentials({}, "10087")
_OTHER_KEY = read_credentials({reading.SECRET: "sesame"}, "10087")
_CHALLENGE, _CONNECT = "/ascend_session.Exchange/Challenge", "/ascend_session.Exchange/Connect"


class Node:
    """Keeps what a node hears, in order: its connections, their messages and their ends."""

    def __init__(self) -> None:
        self._events: Any = queue.Queue()
        self._connections: List[network.Connection] = []
        self._listeners: List[network.Listener] = []

    def listen(self, address: str = "127.0.0.1:0", **options: Any) -> network.Listener:
        given = {"credentials": _KEY, "name": "node 0", "serve": self.serve, **options}
        self._listeners.append(network.Listener(address, **given))
        return self._listeners[-1]

    def connect(self, address: str, **options: Any) -> network.Connection:
        """Connect, and serve the connection in a thread of its own.

        Raises:
            InitializationError: What `network.connect` raises.
        """
        given = {"credentials": _KEY, "name": "node 1", "timeout_s": _PATIENCE_S, **options}
        answers: queue.Queue[Any] = queue.Queue()

        def run() -> None:
            try:
                with network.connect(address, **given) as connection:
                    self._connections.append(connection)
                    answers.put(connection)
                    self._serve(connection)
            except InitializationError as error:
                answers.put(error)

        threading.Thread(target=run, daemon=True).start()
        answer = answers.get(timeout=2 * _PATIENCE_S)
        if isinstance(answer, InitializationError):
            raise answer
        assert isinstance(answer, network.Connection)
        return answer

    def serve(self, connection: network.Connection) -> None:
        self._connections.append(connection)
        self._events.put(("connection", connection))
        self._serve(connection)

    def expect(self, kind: str) -> Any:
        """Wait for the next thing that is heard, which must be of this kind."""
        found, what = self._events.get(timeout=_PATIENCE_S)
        assert found == kind, what
        return what

    def assert_silent(self) -> None:
        assert list(self._events.queue) == []

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for listener in self._listeners:
            listener.close()

    def _serve(self, connection: network.Connection) -> None:
        for message in connection:
            self._events.put(("message", message))
        self._events.put(("close", connection.peer))


@pytest.fixture
def make_node() -> Iterator[Callable[[], Node]]:
    nodes: List[Node] = []

    def make() -> Node:
        nodes.append(Node())
        return nodes[-1]

    yield make
    for node in reversed(nodes):
        node.close()


@pytest.fixture
def here(make_node: Any) -> Node:
    return make_node()


@pytest.fixture
def there(make_node: Any) -> Node:
    return make_node()


_PROGRAM = """
import ctypes, os, sys, threading
from ascend_session.backends.exchange import network
from ascend_session.backends.exchange.credentials import read_credentials

words = {word.partition("=")[0]: word.partition("=")[2] for word in sys.argv[1:]}
key = read_credentials({}, "10087")

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())

def serve(connection):
    say("open", connection.peer)
    answer(connection)

def answer(connection):
    for message in connection:
        if message == b"trim":  # give back what malloc keeps
            ctypes.CDLL(None).malloc_trim(0)
        connection.send(message)
        if message == b"close":
            connection.close()
    say("close", connection.peer)

def connect():
    with network.connect(words["connect"] or listener.address, "child", key, 20) as connection:
        say("ready")
        for number in range(int(words.get("send", 0))):
            connection.send(b"%d" % number)
        if "send" in words:
            connection.close()
        ready.set()
        answer(connection)
    if "send" in words:
        os._exit(0)

ready = threading.Event()
if "listen" in words:
    listener = network.Listener(words["listen"], "child", key, serve)
    say(listener.address)
if "connect" in words:
    threading.Thread(target=connect, daemon=True).start()
    ready.wait()
if "listen" not in words or "connect" not in words:
    sys.stdin.read()
"""


@contextlib.contextmanager
def child(*words: str) -> Iterator[Any]:
    """A process that listens or connects, and answers each message with the same."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *words],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def stranger(address: str) -> Any:
    """A channel of gRPC to anywhere, without our handshake."""
    grpc = network.import_grpc()

    return contextlib.closing(
        grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    )


def status_of(call: Any) -> Any:
    """How a call ends."""
    return call.code().name


@contextlib.contextmanager
def server(challenge: Any, connect: Any) -> Iterator[str]:
    """Somebody else's listener."""
    grpc = network.import_grpc()

    pool = network._DaemonThreads()
    serving = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
    handlers = {
        "Challenge": grpc.stream_stream_rpc_method_handler(challenge),
        "Connect": grpc.stream_stream_rpc_method_handler(connect),
    }
    handler = grpc.method_handlers_generic_handler("ascend_session.Exchange", handlers)
    serving.add_generic_rpc_handlers((handler,))
    port = serving.add_insecure_port("127.0.0.1:0")
    serving.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        serving.stop(None).wait()


# Messages


def test_messages_go_both_ways_and_keep_their_order(here: Node, there: Node) -> None:
    listener = here.listen()
    away = there.connect(listener.address)
    home = here.expect("connection")
    assert (home.peer, away.peer) == ("node 1", "node 0")
    sent = [b"%d" % number for number in range(500)]
    for message in sent:
        home.send(message)
        away.send(message)
    assert [here.expect("message") for _ in sent] == sent
    assert [there.expect("message") for _ in sent] == sent


def test_a_message_is_empty_or_as_long_as_the_limit_but_not_longer(here: Node, there: Node) -> None:
    away = there.connect(here.listen().address)
    here.expect("connection")
    longest = os.urandom(network.MESSAGE_LIMIT)
    for message in (b"", longest):
        away.send(message)
        assert here.expect("message") == message
    away.send(longest + b"x")
    assert here.expect("close") == "node 1"
    assert there.expect("close") == "node 0"


def test_a_listener_may_come_later(here: Node, there: Node) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InitializationError, match=r"has not answered within 0\.2 s"):
        there.connect(address, timeout_s=0.2)
    late = threading.Timer(0.3, here.listen, [address])
    late.start()
    there.connect(address).send(b"early")
    late.join()
    here.expect("connection")
    assert here.expect("message") == b"early"


def test_several_nodes_have_connections_of_their_own(here: Node, make_node: Any) -> None:
    listener = here.listen()
    homes = {}
    callers = {name: make_node() for name in ("a", "b", "c")}
    for name, caller in callers.items():
        caller.connect(listener.address, name=name)
        homes[name] = here.expect("connection")
        assert homes[name].peer == name
    for name, home in homes.items():
        home.send(name.encode())
    assert [caller.expect("message") for caller in callers.values()] == [b"a", b"b", b"c"]


# Ends


@pytest.mark.parametrize("closes", ["caller", "listener"])
def test_what_was_queued_arrives_before_the_end(closes: str, here: Node, there: Node) -> None:
    away = there.connect(here.listen().address)
    home = here.expect("connection")
    mine, other = (away, here) if closes == "caller" else (home, there)
    for number in range(200):
        mine.send(b"%d" % number)
    mine.close()
    mine.send(b"too late")
    assert [other.expect("message") for _ in range(200)][-1] == b"199"
    assert here.expect("close") == "node 1"
    assert there.expect("close") == "node 0"
    mine.close()
    for node in (here, there):
        node.assert_silent()


def test_a_listener_that_closes_ends_its_connections(here: Node, there: Node) -> None:
    listener = here.listen()
    there.connect(listener.address)
    here.expect("connection")
    listener.close()
    assert there.expect("close") == "node 0"
    assert here.expect("close") == "node 1"
    with pytest.raises(InitializationError, match=r"within 2 s .*refused"):
        there.connect(listener.address, timeout_s=2)


def test_a_process_may_end_as_soon_as_its_connection_has(here: Node) -> None:
    with child(f"connect={here.listen().address}", "send=2000") as process:
        here.expect("connection")
        assert [int(here.expect("message")) for _ in range(2000)] == list(range(2000))
        assert here.expect("close") == "child"
        assert process.wait(_PATIENCE_S) == 0


@pytest.mark.parametrize("role", ["listens", "calls"])
def test_a_killed_process_is_noticed_at_once(role: str, here: Node) -> None:
    words = ["listen=127.0.0.1:0"] if role == "listens" else [f"connect={here.listen().address}"]
    with child(*words) as process:
        if role == "listens":
            here.connect(process.stdout.readline().strip())
        else:
            here.expect("connection")
        process.kill()
        start = time.monotonic()
        assert here.expect("close") == "child"
        assert time.monotonic() - start < 30
        here.assert_silent()


@pytest.mark.parametrize("role", ["listens", "calls"])
def test_a_machine_that_says_nothing_is_given_up(
    role: str, here: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "KEEPALIVE_S", 1.2)
    monkeypatch.setattr(network, "is_loopback", lambda host: False)  # as if it were another one
    listener = here.listen()
    words = ["listen=127.0.0.1:0"] if role == "listens" else [f"connect={listener.address}"]
    with child(*words) as process:
        if role == "listens":
            here.connect(process.stdout.readline().strip())
        else:
            here.expect("connection")
        process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        assert here.expect("close") == "child"
        assert time.monotonic() - start < 30


def test_a_quiet_connection_lives_longer_than_an_idle_stranger(
    here: Node, there: Node, monkeypatch: Any
) -> None:
    options = dict(network._LISTENER_OPTIONS)
    options.update({"grpc.max_connection_idle_ms": 300, "grpc.server_handshake_timeout_ms": 300})
    monkeypatch.setattr(network, "_LISTENER_OPTIONS", tuple(options.items()))
    listener = here.listen()
    away = there.connect(listener.address)
    here.expect("connection")
    host, port = listener.address.split(":")
    with socket.create_connection((host, int(port)), _PATIENCE_S) as idle:
        while idle.recv(1000):  # until the listener ends it
            pass
    away.send(b"still here")
    assert here.expect("message") == b"still here"


def test_a_connection_that_is_aborted_ends_on_both_sides(here: Node, there: Node) -> None:
    for aborts in ("caller", "listener"):
        away = there.connect(here.listen().address)
        home = here.expect("connection")
        (away if aborts == "caller" else home).abort()
        assert there.expect("close") == "node 0"
        assert here.expect("close") == "node 1"


def test_the_interpreter_exits_while_connections_are_open() -> None:
    with child("listen=127.0.0.1:0", "connect=") as process:
        out, log = process.communicate(timeout=_PATIENCE_S)
        assert (process.returncode, log) == (0, "")
        assert "ready" in out.splitlines()


# Who is let in


@pytest.mark.parametrize(
    "other",
    [
        read_credentials({}, "10088"),
        _OTHER_KEY,
        read_credentials({reading.SECRET: "sesame"}, "10088"),
    ],
    ids=["another job", "another secret", "both"],
)
def test_another_key_is_refused_at_once(other: Any, here: Node, there: Node) -> None:
    listener = here.listen()
    start = time.monotonic()
    with pytest.raises(InitializationError, match="The nodes of another job, or of one with"):
        there.connect(listener.address, credentials=other)
    assert time.monotonic() - start < 30
    there.connect(listener.address, name="right").send(b"right")
    assert here.expect("connection").peer == "right"
    assert here.expect("message") == b"right"


def test_a_listener_that_cannot_prove_itself_gets_no_message(here: Node) -> None:
    heard: List[bytes] = []

    def challenge(requests: Any, context: Any) -> Any:
        context.send_initial_metadata((("nonce-bin", b"any"),))
        return iter(())

    def connect(requests: Any, context: Any) -> Any:
        context.send_initial_metadata((("name-bin", b"node 0"), ("proof-bin", bytes(32))))
        yield b"message of a stranger"
        heard.extend(requests)

    with server(challenge, connect) as address:
        with pytest.raises(InitializationError, match="another secret"):
            here.connect(address)
    assert heard == []
    here.assert_silent()


def test_another_service_is_no_node(here: Node) -> None:
    def refuse(requests: Any, context: Any) -> Any:
        grpc = network.import_grpc()

        context.abort(grpc.StatusCode.UNIMPLEMENTED, "What is this?")

    with server(refuse, refuse) as address:
        with pytest.raises(InitializationError, match=r"not a node of this job.*What is this"):
            here.connect(address)


@pytest.fixture
def captured(here: Node, there: Node) -> Iterator[Tuple[str, Dict[str, bytes]]]:
    """A listener, and what a right node has said to somebody who stood between the two."""
    listener = here.listen()
    caught: Any = queue.Queue()
    over = threading.Event()

    def challenge(requests: Any, context: Any) -> Any:
        with stranger(listener.address) as channel:
            nonce = channel.stream_stream(_CHALLENGE)(iter(())).initial_metadata()
        context.send_initial_metadata(nonce)
        return iter(())

    def connect(requests: Any, context: Any) -> Any:
        caught.put(dict(context.invocation_metadata()))
        over.wait(_PATIENCE_S)
        return iter(())

    with server(challenge, connect) as address:
        calling = threading.Thread(target=_connect_in_vain, args=[there, address])
        calling.start()
        metadata = caught.get(timeout=_PATIENCE_S)
        yield (
            listener.address,
            {key: value for key, value in metadata.items() if key.endswith("-bin")},
        )
        over.set()
        calling.join(_PATIENCE_S)


def _connect_in_vain(node: Node, address: str) -> None:
    with pytest.raises(InitializationError):
        node.connect(address, timeout_s=2)


def answer_to(address: str, metadata: Dict[str, bytes], *messages: bytes) -> Any:
    with stranger(address) as channel:
        call = channel.stream_stream(_CONNECT)(iter(messages), metadata=tuple(metadata.items()))
        return status_of(call)


def test_a_proof_belongs_to_one_name(captured: Any, here: Node) -> None:
    address, metadata = captured
    assert set(metadata) == {"nonce-bin", "caller-nonce-bin", "name-bin", "proof-bin"}
    assert answer_to(address, {**metadata, "name-bin": b"node 2"}, b"x") == "UNAUTHENTICATED"
    here.assert_silent()


def test_a_proof_is_good_once(captured: Any, here: Node) -> None:
    address, metadata = captured
    assert answer_to(address, metadata) == "OK"
    assert here.expect("connection").peer == "node 1"
    assert here.expect("close") == "node 1"
    assert answer_to(address, metadata, b"again") == "ABORTED"
    here.assert_silent()


def test_a_proof_is_good_at_one_listener(captured: Any, there: Node) -> None:
    other = there.listen()
    assert answer_to(other.address, captured[1], b"elsewhere") == "ABORTED"
    there.assert_silent()


def test_a_proof_grows_old(captured: Any, here: Node, monkeypatch: Any) -> None:
    address, metadata = captured
    monkeypatch.setattr(network, "_NONCE_AGE_S", 0.0)
    assert answer_to(address, metadata, b"late") == "ABORTED"
    here.assert_silent()


# Where


def test_a_port_that_is_taken_is_said(here: Node, there: Node) -> None:
    address = here.listen().address
    with pytest.raises(InitializationError, match=f"cannot listen at {address} .*already in use"):
        there.listen(address)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("192.0.2.1:0", "Cannot assign requested address"),
    ],
)
def test_an_address_that_is_none_of_this_machine_is_said(
    address: str, reason: str, here: Node
) -> None:
    with pytest.raises(InitializationError, match=f"cannot listen at {address} .*{reason}"):
        here.listen(address)


def test_localhost_is_an_address_as_well(here: Node, there: Node) -> None:
    there.connect(here.listen("localhost:0").address).send(b"message")
    here.expect("connection")
    assert here.expect("message") == b"message"


def test_a_name_listens_at_all_addresses(here: Node, there: Node) -> None:
    listener = here.listen("first-node.example:0")
    host, port = listener.address.split(":")
    assert host == "first-node.example"
    there.connect(f"127.0.0.1:{port}")
    assert here.expect("connection").peer == "node 1"


def test_a_listener_that_has_lost_an_attempt_is_asked_again(
    here: Node, there: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue, over, asked = network._Nonces.issue, threading.Event(), []  # type: ignore[var-annotated]

    def lose_first(nonces: Any) -> bytes:
        asked.append(nonces)
        if len(asked) == 1:
            over.wait(_PATIENCE_S)
        return issue(nonces)

    monkeypatch.setattr(network._Nonces, "issue", lose_first)
    monkeypatch.setattr(network, "_ATTEMPT_S", 0.5)
    there.connect(here.listen().address)
    assert here.expect("connection").peer == "node 1"
    assert len(asked) > 1
    over.set()


@pytest.mark.parametrize("answers", ["nothing", "a challenge"])
def test_somebody_who_says_no_more_is_not_waited_for_longer(answers: str, here: Node) -> None:
    over = threading.Event()

    def challenge(requests: Any, context: Any) -> Any:
        context.send_initial_metadata((("nonce-bin", b"any"),))
        return iter(())

    def connect(requests: Any, context: Any) -> Any:
        over.wait(_PATIENCE_S)
        return iter(())

    with contextlib.ExitStack() as stack:
        if answers == "nothing":
            silent = stack.enter_context(socket.socket())
            silent.bind(("127.0.0.1", 0))
            silent.listen(5)
            address = f"127.0.0.1:{silent.getsockname()[1]}"
        else:
            address = stack.enter_context(server(challenge, connect))
            stack.callback(over.set)
        begun = time.monotonic()
        with pytest.raises(InitializationError, match=r"has not answered within 0\.5 s"):
            here.connect(address, timeout_s=0.5)
        assert time.monotonic() - begun < 30
    here.assert_silent()


# Secrets and certificates


def test_a_secret_comes_from_the_variable_the_file_or_the_job(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("sesame\n")
    file.chmod(0o600)
    of_file = read_credentials({reading.SECRET_FILE: str(file)}, "10087")
    assert of_file == _OTHER_KEY
    assert of_file.is_secret
    assert not _KEY.is_secret
    both = {reading.SECRET: "other", reading.SECRET_FILE: "/nowhere"}
    assert read_credentials(both, "1") == read_credentials({reading.SECRET: "other"}, "1")
    assert len({_KEY.key, _OTHER_KEY.key, read_credentials({}, "1").key}) == 3


def test_credentials_do_not_show_their_keys() -> None:
    tls = TlsFiles(b"one", b"two", b"three")
    shown = repr(Credentials(b"four", True, tls))
    assert shown == "Credentials(key=..., is_secret=True, tls=TlsFiles(...))"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_secret_that_others_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "a secret"
    file.write_text("sesame")
    file.chmod(mode)
    with pytest.raises(JobError, match=f"has mode {mode:04o}") as caught:
        read_credentials({reading.SECRET_FILE: str(file)}, "10087")
    assert caught.value.hint == f"chmod 600 '{file}'"


def test_a_secret_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "secret"
    file.write_text("sesame")
    file.chmod(0o600)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(JobError, match=f"belongs to user {user} .* user {user + 1}"):
        read_credentials({reading.SECRET_FILE: str(file)}, "10087")


def test_a_secret_is_a_file_that_has_one(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "pipe"), 0o600)
    (tmp_path / "empty").write_text("\n")
    for name, message in [
        ("pipe", "is a pipe or a device, not a file"),
        ("empty", "is empty"),
        (".", "is a folder, not a file"),
        ("missing", "does not exist"),
    ]:
        with pytest.raises(JobError, match=message):
            read_credentials({reading.SECRET_FILE: str(tmp_path / name)}, "10087")


def test_the_warning_says_what_protects_the_job() -> None:
    tls = TlsFiles(b"", b"", b"")
    assert _KEY._replace(tls=tls).warning("a:1") is None
    secret, derived = _OTHER_KEY.warning("a:1"), _KEY.warning("a:1")
    assert secret is not None
    assert "meet at a:1" in secret
    assert "unencrypted" in secret
    assert "ASCEND_SESSION_TLS_CA" in secret
    assert derived is not None
    assert derived.startswith(secret)
    assert "All that keeps others out of the job is its JOB_ID" in derived
    assert "ASCEND_SESSION_SECRET " in derived


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: Any) -> Dict[str, Dict[str, str]]:
    """Two certificate authorities, each with a node's certificate: the variables for each."""
    return make_authorities(tmp_path_factory.mktemp("certificates"), "127.0.0.1")


def test_with_tls_messages_are_encrypted(here: Node, there: Node, authorities: Any) -> None:
    ours = read_credentials(authorities["ours"], "10087")
    with relay(here.listen(credentials=ours).address) as (address, bytes_seen):
        there.connect(address, credentials=ours).send(b"a message in plain sight")
        assert here.expect("connection").peer == "node 1"
        assert here.expect("message") == b"a message in plain sight"
        assert b"plain sight" not in bytes(bytes_seen)
    assert here.expect("close") == "node 1"
    with relay(there.listen(credentials=_KEY).address) as (address, bytes_seen):
        here.connect(address).send(b"a message in plain sight")
        there.expect("close")  # of the connection above
        there.expect("connection")
        there.expect("message")
        assert b"plain sight" in bytes(bytes_seen)


def test_with_tls_a_foreign_certificate_or_key_is_refused(
    here: Node, there: Node, authorities: Any
) -> None:
    ours = read_credentials(authorities["ours"], "10087")
    theirs = read_credentials(authorities["theirs"], "10087")
    assert ours.tls is not None
    assert theirs.tls is not None
    listener = here.listen(credentials=ours)
    for message, wrong in [
        ("CERTIFICATE_VERIFY_FAILED", theirs),
        ("another secret", _OTHER_KEY._replace(tls=ours.tls)),
        # The listener ends these without a reason.
        ("within", _KEY),
        ("within", ours._replace(tls=theirs.tls._replace(ca=ours.tls.ca))),
    ]:
        timeout_s = 0.5 if message == "within" else _PATIENCE_S
        with pytest.raises(InitializationError, match=message):
            there.connect(listener.address, credentials=wrong, timeout_s=timeout_s)
    with pytest.raises(InitializationError, match="uses TLS differently"):
        here.connect(there.listen().address, credentials=ours)
    here.assert_silent()
    there.assert_silent()


def test_tls_needs_all_its_files_and_they_fit(tmp_path: Path, authorities: Any) -> None:
    ours, theirs = authorities["ours"], authorities["theirs"]
    ca, certificate, key = reading.TLS_VARIABLES
    copy = tmp_path / "key"
    shutil.copy(ours[key], str(copy))
    copy.chmod(0o640)
    for changed, message in [
        ({ca: ""}, f"TLS needs {ca} as well"),
        ({certificate: "", key: ""}, f"TLS needs {certificate}, {key} as well"),
        ({ca: "/nowhere"}, f"{ca}=/nowhere does not exist"),
        ({key: theirs[key]}, "together: .*key values mismatch"),
        ({certificate: ours[key]}, "TLS cannot use"),
        ({key: str(copy)}, "has mode 0640"),
    ]:
        with pytest.raises(JobError, match=message):
            read_credentials({**ours, **changed}, "10087")


# Strangers


@contextlib.contextmanager
def relay(address: str) -> Iterator[Tuple[str, bytearray]]:
    """Stand between one caller and a listener; keep what the caller has sent."""
    seen = bytearray()
    host, port = address.split(":")
    ends: List[socket.socket] = []

    def forward(source: socket.socket, target: socket.socket, keep: Optional[bytearray]) -> None:
        with contextlib.suppress(OSError):
            for data in iter(lambda: source.recv(65536), b""):
                if keep is not None:
                    keep.extend(data)
                target.sendall(data)

    def accept() -> None:
        caller, _ = server.accept()
        listener = socket.create_connection((host, int(port)))
        ends.extend((caller, listener))
        for arguments in ((caller, listener, seen), (listener, caller, None)):
            threading.Thread(target=forward, args=arguments, daemon=True).start()

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(5)
        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", seen
        thread.join()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def mutations(whole: bytes, chance: random.Random) -> Iterator[bytes]:
    """Bytes that look like a caller's more or less, without end."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    while True:
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        start = chance.randrange(len(whole))
        noise = bytes(chance.randrange(256) for _ in range(chance.randrange(200)))
        yield bytes(changed)
        yield whole[:start]
        yield preface + bytes(changed[start:])
        yield noise
        yield preface + noise


def test_strangers_cost_nothing_and_are_not_let_in(here: Node) -> None:
    chance = random.Random(16)
    with child("listen=127.0.0.1:0") as process:
        address = process.stdout.readline().strip()
        with relay(address) as (between, seen):
            right = here.connect(between, name="captured")
            right.send(b"message" * 100)
            here.expect("message")
            right.close()
            here.expect("close")
        assert process.stdout.readline() == "open captured\n"
        assert process.stdout.readline() == "close captured\n"

        last = here.connect(address, name="right")

        def used_bytes() -> int:
            last.send(b"trim")
            here.expect("message")
            return int(psutil.Process(process.pid).memory_info().rss)

        blobs = mutations(bytes(seen), chance)
        send_blobs(address, blobs, 400)
        send_calls(address, chance, 150)
        before = used_bytes()
        send_blobs(address, blobs, 2500)
        send_calls(address, chance, 800)
        growth = used_bytes() - before
        last.send(b"close")
        assert here.expect("message") == b"close"
        assert here.expect("close") == "child"
        assert process.stdout.readline() == "open right\n", "a stranger was let in"
        assert growth < 12 << 20  # 3,300 connections would take some 60 MB
        assert psutil.Process(process.pid).num_threads() < 60
        _, log = process.communicate(timeout=_PATIENCE_S)
        assert (process.returncode, log) == (0, "")


def send_blobs(address: str, blobs: Iterator[bytes], count: int) -> None:
    """Send each through a connection of its own, until the listener has ended it; 40 at a time."""
    host, port = address.split(":")
    connections: List[socket.socket] = []

    def end_one() -> None:
        with connections.pop(0) as oldest, contextlib.suppress(ConnectionError):
            oldest.shutdown(socket.SHUT_WR)
            while oldest.recv(65536):
                pass

    for blob, _ in zip(blobs, range(count)):
        connections.append(socket.create_connection((host, int(port)), _PATIENCE_S))
        with contextlib.suppress(ConnectionError):  # the listener may have ended it already
            connections[-1].sendall(blob)
        if len(connections) > 40:
            end_one()
    while connections:
        end_one()


def send_calls(address: str, chance: random.Random, count: int) -> None:
    """Call right and wrong methods with random metadata and bodies that nobody asked for."""
    statuses = set()
    with stranger(address) as channel:
        for _ in range(count):
            method = chance.choice([_CHALLENGE, _CONNECT, "/ascend_session.Exchange/X", "/a/b"])
            keys = ["nonce-bin", "caller-nonce-bin", "name-bin", "proof-bin", "other-bin"]
            metadata = [
                (key, bytes(chance.randrange(256) for _ in range(chance.choice([0, 24, 56, 300]))))
                for key in chance.sample(keys, chance.randrange(5))
            ]
            body = [bytes(chance.choice([0, 10, 100000]))] * chance.randrange(20)
            call = channel.stream_stream(method)(iter(body), metadata=metadata, timeout=_PATIENCE_S)
            statuses.add(status_of(call))
    assert "ABORTED" in statuses
    assert statuses <= {"OK", "ABORTED", "UNAUTHENTICATED", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}


def test_strangers_who_stay_do_not_keep_a_node_out(here: Node, there: Node) -> None:
    listener = here.listen()
    host, port = listener.address.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection((host, int(port)), _PATIENCE_S))
        for _ in range(20):
            channel = stack.enter_context(stranger(listener.address))
            never = threading.Event()
            stack.callback(never.set)
            for _ in range(3):
                for method in (_CHALLENGE, _CONNECT):
                    channel.stream_stream(method)(iter(lambda e=never: e.wait() and b"", b""))
        there.connect(listener.address).send(b"through")
        assert here.expect("connection").peer == "node 1"
        assert here.expect("message") == b"through"

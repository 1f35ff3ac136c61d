"""What a node proves itself with to the others: the job's key, and the files for TLS if it has any.

The key follows from a secret and the job's id, so that jobs with one secret have different keys.
Without a secret it follows from JOB_ID alone.
"""

import hashlib
import hmac
import os
import shlex
import ssl
import stat
import struct
from typing import Mapping, NamedTuple, Optional

from ascend_session.errors import JobError
from ascend_session.files import UnreadableError, read_regular_file

SECRET = "ASCEND_SESSION_SECRET"
SECRET_FILE = "ASCEND_SESSION_SECRET_FILE"
TLS_VARIABLES = ("ASCEND_SESSION_TLS_CA", "ASCEND_SESSION_TLS_CERT", "ASCEND_SESSION_TLS_KEY")

_MOST_BYTES = 1 << 20  # of a file
_CONTEXT = b"ascend_session exchange 1"  # what is proved here proves nothing elsewhere


class TlsFiles(NamedTuple):
    """The contents of the job's certificate authority, and of this node's certificate and key."""

    ca: bytes
    certificate: bytes
    private_key: bytes

    def __repr__(self) -> str:
        return "TlsFiles(...)"


class Credentials(NamedTuple):
    """What a node brings to prove that it belongs to the job.

    Attributes:
        key: The job's HMAC key.
        is_secret: Whether the key comes from a secret; False if it follows from JOB_ID.
        tls: The files for TLS, or None if the connections are not encrypted.
    """

    key: bytes
    is_secret: bool
    tls: Optional[TlsFiles]

    def __repr__(self) -> str:
        return f"Credentials(key=..., is_secret={self.is_secret}, tls={self.tls})"

    def warning(self, address: str) -> Optional[str]:
        """Say what does not protect a job whose nodes meet at this address; None with TLS."""
        if self.tls is not None:
            return None
        sentence = (
            f"The nodes of this job meet at {address} and send each other their tensors "
            f"unencrypted over the network; set {', '.join(TLS_VARIABLES)} to use TLS."
        )
        if self.is_secret:
            return sentence
        return (
            f"{sentence} All that keeps others out of the job is its JOB_ID; set {SECRET} or "
            f"{SECRET_FILE} on all nodes."
        )


def read_credentials(environ: Mapping[str, str], job_id: str) -> Credentials:
    """Read the job's secret, and the files for TLS that the environment names.

    The secret is the value of ASCEND_SESSION_SECRET, else the content of the file that
    ASCEND_SESSION_SECRET_FILE names.

    Raises:
        JobError: If a file cannot be used, or only some of the variables for TLS are set.
    """
    secret = os.fsencode(environ.get(SECRET, ""))
    if not secret and environ.get(SECRET_FILE):
        secret = _read_file(SECRET_FILE, environ[SECRET_FILE], is_private=True)
    key = sign(secret.strip(), b"job", os.fsencode(job_id))
    return Credentials(key, bool(secret), _read_tls_files(environ))


def sign(key: bytes, *parts: bytes) -> bytes:
    """Give the HMAC-SHA256 of several parts, none of which can be taken for two others."""
    message = b"".join(struct.pack(">I", len(part)) + part for part in (_CONTEXT, *parts))
    return hmac.new(key, message, hashlib.sha256).digest()


def _read_file(variable: str, path: str, is_private: bool) -> bytes:
    """Read a file that a variable names; a private one must be this user's alone."""
    try:
        content = read_regular_file(path, _MOST_BYTES, "a secret or certificate")
        status = os.stat(path)
    except UnreadableError as reason:
        raise JobError(f"{variable}={path} {reason}.", hint=reason.hint) from reason
    if not content.strip():
        raise JobError(f"{variable}={path} is empty.")
    mode = stat.S_IMODE(status.st_mode)
    if is_private and (status.st_uid != os.geteuid() or mode & 0o077):
        raise JobError(
            f"{variable}={path} belongs to user {status.st_uid} and has mode {mode:04o}; only "
            f"user {os.geteuid()}, who runs this process, may read or write it.",
            hint=f"chmod 600 {shlex.quote(path)}",
        )
    return content


def _read_tls_files(environ: Mapping[str, str]) -> Optional[TlsFiles]:
    missing = [name for name in TLS_VARIABLES if not environ.get(name)]
    if len(missing) == len(TLS_VARIABLES):
        return None
    if missing:
        raise JobError(f"TLS needs {', '.join(missing)} as well ({', '.join(TLS_VARIABLES)}).")
    ca, certificate, private_key = paths = [environ[name] for name in TLS_VARIABLES]
    files = TlsFiles(*map(_read_file, TLS_VARIABLES, paths, (False, False, True)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, private_key, password="")  # never asks the terminal
    except (OSError, ValueError) as error:
        raise JobError(
            f"TLS cannot use {ca}, {certificate} and {private_key} together: {error}."
        ) from error
    return files

"""Certificates for tests, made with the openssl command."""

import shutil
import subprocess
from pathlib import Path
from typing import Dict

import pytest

from ascend_session.backends.exchange.credentials import TLS_VARIABLES

__all__ = ["make_authorities"]


def make_authorities(folder: Path, *addresses: str) -> Dict[str, Dict[str, str]]:
    """Make two certificate authorities, each with a node's certificate.

    Args:
        folder: Where the files go.
        addresses: Those of the node.

    Returns:
        The variables that name the files, of ``ours`` and ``theirs``.
    """
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command to make certificates with")
    new = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    names = ",".join(f"IP:{address}" for address in addresses)
    (folder / "san").write_text(f"subjectAltName={names}")

    def openssl(words: str) -> None:
        subprocess.run(
            ["openssl", *words.split()], cwd=str(folder), check=True, stderr=subprocess.DEVNULL
        )

    for name in ("ours", "theirs"):
        openssl(f"req -x509 {new} -keyout {name}-ca.key -out {name}-ca.pem -subj /CN={name}")
        openssl(f"req {new} -keyout {name}.key -out {name}.csr -subj /CN=node")
        openssl(
            f"x509 -req -in {name}.csr -CA {name}-ca.pem -CAkey {name}-ca.key -CAcreateserial "
            f"-out {name}.pem -extfile san"
        )
        (folder / f"{name}.key").chmod(0o600)
    return {
        name: {
            variable: str(folder / file)
            for variable, file in zip(
                TLS_VARIABLES, (f"{name}-ca.pem", f"{name}.pem", f"{name}.key")
            )
        }
        for name in ("ours", "theirs")
    }

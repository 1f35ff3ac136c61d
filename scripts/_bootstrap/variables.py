"""Knows the environment in which tests and checks run: what else a machine has must not matter.

PYTHONUNBUFFERED, for one, hides each flush that is missing.
"""

import re
from typing import Dict, Mapping

_PASSED = re.compile(
    r"HOME|LANG|LOGNAME|PATH|SHELL|TERM|TMPDIR|TZ|USER"
    # Which Python runs, and which TensorFlow; the second is where some Pythons have their library.
    r"|PYTHON|LD_LIBRARY_PATH|PYENV_ROOT|ASCEND_SESSION_TEST_\w+|PYTEST_\w+"
    # What pip and apt-get need: some tests install packages, too.
    r"|PIP_\w+|(all|ftp|http|https|no)_proxy|(ALL|FTP|HTTP|HTTPS|NO)_PROXY"
    r"|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|SSL_CERT_DIR|SSL_CERT_FILE"
)


def own_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that pass, and no others."""
    return {name: value for name, value in environ.items() if _PASSED.fullmatch(name)}

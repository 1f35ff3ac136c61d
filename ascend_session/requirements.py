"""The pip commands in hints about missing packages.

They name only packages of well-known projects, with the pins of pyproject.toml. The vendor's
packages are on no index: a package of that name would be somebody else's, and would run with the
rights of the training job. So hints name the vendor's files, and never this project's own name.
"""

import os
import re
import sys
from typing import Tuple

EXAMPLES_COMMAND = "pip install scikit-learn matplotlib"
VENDOR_WHEEL_COMMAND = "pip install --no-index DIR/npu_bridge-*.whl"
OTHER_ADAPTER = (
    "The package npu_device is the adapter for TensorFlow 2, another product. Neither "
    "`ascend-session run` nor `launch` stands in for it: run the script where it is installed, on "
    "a machine with an Ascend processor, or write the training for npu_bridge or ascend_session."
)
_X86_64 = ("x86_64", "amd64")


def tensorflow_hint(
    python: Tuple[int, ...] = sys.version_info[:2], machine: str = os.uname().machine
) -> str:
    """Return the command that installs TensorFlow for this Python, or say that there is none.

    Args:
        python: Major and minor version.
        machine: The processor's name, as ``uname -m`` prints it.
    """
    is_x86_64 = machine.lower() in _X86_64
    if python == (3, 8):
        return (
            "Use Python 3.7 for TensorFlow 1.15, or 3.9 or newer for 2.x: for Python 3.8 there is "
            "no TensorFlow that ascend_session has been tested with."
        )
    if python < (3, 8):
        if is_x86_64:
            return "pip install tensorflow==1.15.5 'protobuf<3.21'"
        return (
            f"Install the TensorFlow 1.15 wheel that was built for {machine}: package indexes have "
            "it for x86_64 only."
        )
    return f"pip install '{'tensorflow-cpu' if is_x86_64 else 'tensorflow'}>=2.8'"


# Words in an ImportError, and the requirement that prevents it
_TOO_NEW = (
    ("Descriptors cannot", "protobuf<3.21"),
    ("_ARRAY_API not found", "numpy<2"),
    ("compiled using NumPy 1.x", "numpy<2"),
    ("numpy.core.multiarray failed to import", "numpy<2"),
    ("numpy.core.umath failed to import", "numpy<2"),
    ("module 'numpy' has no attribute", "numpy<1.24"),
)


def hint_for_import_error(error: str, python: Tuple[int, ...] = sys.version_info[:2]) -> str:
    """Return how to repair a TensorFlow that cannot be imported.

    Args:
        error: The text of the exception.
        python: Major and minor version of the Python that imports it.
    """
    for words, requirement in _TOO_NEW:
        if words in error:
            package = requirement.partition("<")[0]
            return f"TensorFlow needs an older {package}: pip install '{requirement}'"
    install = tensorflow_hint(python)
    missing = re.search(r"(?:No module named '|^import of )([\w.]+)", error)
    if missing is not None and missing[1].partition(".")[0] == "tensorflow":
        return install
    if missing is not None:
        return f"TensorFlow is installed, but needs {missing[1]}: {install}"
    again = install.replace("pip install", "pip install --force-reinstall", 1)
    return f"TensorFlow is installed, but broken: {again}"

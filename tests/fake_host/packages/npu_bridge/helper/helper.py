"""Loads the adapter's library (tf_adapter/python/npu_bridge/helper/helper.py)."""

import os
from typing import Any

import fake_ge

import npu_bridge

try:
    npu_bridge_handle = fake_ge.load_library(
        os.path.join(os.path.dirname(npu_bridge.__file__), "_tf_adapter.so")
    )
except Exception as e:
    # helper.py: what went wrong is only printed; importing the handle then fails
    print(str(e))

version = "v1.15.0"


def get_gen_ops() -> Any:
    """The handle; NameError if the library could not be loaded."""
    return npu_bridge_handle

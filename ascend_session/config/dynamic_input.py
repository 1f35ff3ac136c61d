"""DynamicInputConfig: a fixed set of input sizes ("profiles") for online inference.

Source: npu_config.py DynamicInputConfig; npu_attrs.cc CheckInputShape, CheckDynamicDims.
"""

from typing import Optional

from ascend_session.config.model import ConfigPart
from ascend_session.config.option import option
from ascend_session.config.types import DynamicDims, InputShape, Switch

__all__ = ["DynamicInputConfig"]


class DynamicInputConfig(ConfigPart):
    """Dynamic size profiles, under the vendor's names and in the vendor's order.

    ``input_shape`` takes ``"data:1,-1;label:-1"`` or a mapping of names to sizes;
    ``dynamic_dims`` takes ``"2,2;4,4"`` or a list of profiles.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    input_shape: Optional[InputShape] = option("s", "graph", "Names and shapes of the inputs, with -1 marking the dimensions that vary by profile.", applies="online inference")
    dynamic_dims: Optional[DynamicDims] = option("s", "graph", "Semicolon-separated profiles, each giving concrete values for the -1 dimensions in order.", applies="online inference")
    dynamic_node_type: Optional[Switch] = option("i", "graph", "Says whether the dynamic inputs come from the dataset (0) or from placeholders (1).", applies="online inference")
    compile_hybrid_mode: Optional[Switch] = option("i", "graph", "Compiles a dynamic-shape fallback next to the profile graphs and picks at run time.", adapter=0, applies="online inference")

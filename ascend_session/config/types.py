"""The types that option definitions share: ranges, word lists, sizes, paths, and files.

Sources: npu_attrs.cc SetNpuOptimizerAttr (ranges, allowed values); guides/facts/options.md.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any, Mapping, Type, Union

from typing_extensions import Annotated, Literal

from ascend_session.config.grammars import (
    COUNT,
    INT32_MAX,
    TEXT,
    Grammar,
    UnusableError,
    grammar,
    is_whole,
    parse_whole,
    text_or,
    wrong_type,
)
from ascend_session.config.values import Range

if TYPE_CHECKING:
    from ascend_session import option_files
    from ascend_session.option_files.base import OptionFile

    PathLike = os.PathLike[str]
else:
    PathLike = os.PathLike  # Python 3.7 has no os.PathLike[str]

_MOST_BYTES = 2**64 - 1


TextSwitch = Literal["0", "1"]
AutoManual = Literal["auto", "manual"]

Switch = Literal[0, 1]
UpTo2 = Literal[0, 1, 2]
UpTo3 = Literal[0, 1, 2, 3]
UpTo4 = Literal[0, 1, 2, 3, 4]

# Of RunConfig, which hands them to Python (run_config.py _validate_properties of TensorFlow)
ZeroOrMore = Annotated[int, Range(0)]
OneOrMore = Annotated[int, Range(1)]
Hours = Annotated[float, Range(above=0.0)]

Positive = Annotated[int, Range(1, INT32_MAX)]
NotNegative = Annotated[int, Range(0, INT32_MAX)]
MinusOneOrMore = Annotated[int, Range(-1, INT32_MAX)]
FusionBytes = Annotated[int, Range(0, 32 * 1024 * 1024)]
LocalRank = Annotated[int, Range(0, 7)]

PrecisionMode = Literal[
    "force_fp32",
    "allow_fp32_to_fp16",
    "force_fp16",
    "must_keep_origin_dtype",
    "allow_mix_precision",
    "cube_fp16in_fp32out",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
    "allow_fp32_to_bf16",
]
PrecisionModeV2 = Literal[
    "fp16",
    "origin",
    "cube_fp16in_fp32out",
    "mixed_float16",
    "mixed_bfloat16",
    "cube_hif8",
    "mixed_hif8",
]
ImplMode = Literal[
    "high_precision",
    "high_performance",
    "high_precision_for_all",
    "high_performance_for_all",
]


@grammar(
    "a number of bytes, as an int or as decimal text",
    2**30,
    {"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, COUNT]},
)
def memory_size(value: object) -> str:
    """A size in bytes, above 0: an int or decimal text."""
    text = str(value) if is_whole(value) else value
    if not isinstance(text, str):
        raise UnusableError
    if parse_whole(text, 1, _MOST_BYTES) is None:
        raise UnusableError("a number of bytes above 0 is needed, in digits only", str(2**30))
    return text


MemorySize = Annotated[Union[str, int], memory_size]


@grammar("text, os.PathLike", "dump/step0", TEXT, "path")
def path_text(value: object) -> str:
    """A path as text: str or any os.PathLike.

    Raises:
        ValueError: For an empty path, one with a NUL character, and bytes.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise wrong_type(path, "text, os.PathLike", "dump/step0")
    if not path:
        raise UnusableError("it is empty")
    if "\0" in path:
        raise UnusableError("a path has no NUL character in it")
    return path


PathText = Annotated[Union[str, PathLike], path_text]


def config_proto(value: Any) -> Any:
    """A tf.ConfigProto, recognised without TensorFlow."""
    descriptor = getattr(type(value), "DESCRIPTOR", None)
    if getattr(descriptor, "full_name", None) != "tensorflow.ConfigProto":
        raise ValueError(f"this must be a tf.ConfigProto, not {type(value).__name__}.")
    return value


# RunConfig refuses anything else, too.
ConfigProto = Annotated[object, Grammar(config_proto, {}, "Python object")]


TYPE_NAMES = {
    "op_precision_mode": "OpPrecision",
    "modify_mixlist": "MixList",
    "customize_dtypes": "CustomDtypes",
    "fusion_switch_file": "FusionSwitch",
    "op_debug_config": "OpDebugConfig",
    "aoe_config_file": "AoeConfigFile",
}
"""``{option: name of the type of its file in ascend_session.option_files}``."""


def file_type(option: str) -> "Type[OptionFile]":
    """Return the type of the file that ``option`` points to.

    Raises:
        KeyError: If the option does not point to such a file.
    """
    package = importlib.import_module("ascend_session.option_files")
    kind: Type[OptionFile] = getattr(package, TYPE_NAMES[option])
    return kind


def file_grammar(option: str) -> Grammar:
    """Make the grammar of an option that names a file."""

    def read_file(value: object) -> Any:
        """A path, or an object of ascend_session.option_files with the content of the file.

        In a configuration file, write the object as a mapping of its fields. The file is made
        when the system opens: in ascend_option_files, below ASCEND_WORK_PATH or the working
        directory.

        Raises:
            ValueError: If it is neither; a ConfigError if the fields of a mapping are wrong.
        """
        if isinstance(value, (str, bytes, os.PathLike)):
            return path_text(value)
        kind = file_type(option)
        if isinstance(value, Mapping):
            return kind.from_fields(value)
        if isinstance(value, kind):
            return value
        raise ValueError(
            f"{value!r} cannot be used: a path or {kind.__name__} is needed, this is "
            f"{type(value).__name__}."
        )

    return Grammar(read_file, text_or({"type": "object"}), f"path or {TYPE_NAMES[option]}")


if TYPE_CHECKING:
    OpPrecisionFile = Union[str, PathLike, Mapping[str, Any], option_files.OpPrecision]
    MixListFile = Union[str, PathLike, Mapping[str, Any], option_files.MixList]
    CustomDtypesFile = Union[str, PathLike, Mapping[str, Any], option_files.CustomDtypes]
    FusionSwitchFile = Union[str, PathLike, Mapping[str, Any], option_files.FusionSwitch]
    OpDebugFile = Union[str, PathLike, Mapping[str, Any], option_files.OpDebugConfig]
    AoeFile = Union[str, PathLike, Mapping[str, Any], option_files.AoeConfigFile]
else:
    OpPrecisionFile = Annotated[Any, file_grammar("op_precision_mode")]
    MixListFile = Annotated[Any, file_grammar("modify_mixlist")]
    CustomDtypesFile = Annotated[Any, file_grammar("customize_dtypes")]
    FusionSwitchFile = Annotated[Any, file_grammar("fusion_switch_file")]
    OpDebugFile = Annotated[Any, file_grammar("op_debug_config")]
    AoeFile = Annotated[Any, file_grammar("aoe_config_file")]

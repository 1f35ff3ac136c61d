"""The types that option definitions share: ranges, word lists, and text with a grammar.

Sources: npu_attrs.cc SetNpuOptimizerAttr (ranges, allowed values); guides/facts/options.md.
"""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Sequence, Union

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import Annotated, Literal

from ascend_session.config.grammars import (
    accelerate,
    lists,
    named_values,
    profiling_options,
    shapes,
    single_values,
)
from ascend_session.config.grammars.grammar import INT32_MAX
from ascend_session.option_files import TYPE_NAMES, file_type

if TYPE_CHECKING:
    from ascend_session import option_files

    PathLike = os.PathLike[str]
else:
    PathLike = os.PathLike  # Python 3.7 has no os.PathLike[str]


def _plain_int(value: Any) -> Any:
    """Refuse True, 1.0 and numpy's numbers, which equal 1: some releases of pydantic take them."""
    if type(value) is not int:
        raise PydanticCustomError("literal_error", "no plain int")
    return value


TextSwitch = Literal["0", "1"]
AutoManual = Literal["auto", "manual"]

Switch = Annotated[Literal[0, 1], BeforeValidator(_plain_int)]
UpTo2 = Annotated[Literal[0, 1, 2], BeforeValidator(_plain_int)]
UpTo3 = Annotated[Literal[0, 1, 2, 3], BeforeValidator(_plain_int)]
UpTo4 = Annotated[Literal[0, 1, 2, 3, 4], BeforeValidator(_plain_int)]

Positive = Annotated[int, Field(ge=1, le=INT32_MAX)]
NotNegative = Annotated[int, Field(ge=0, le=INT32_MAX)]
MinusOneOrMore = Annotated[int, Field(ge=-1, le=INT32_MAX)]
FusionBytes = Annotated[int, Field(ge=0, le=32 * 1024 * 1024)]
LocalRank = Annotated[int, Field(ge=0, le=7)]

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


class Grammar:
    """Text that a function takes as it is, or makes from one of the structured forms of a type.

    In a type such as ``Annotated[Union[str, int], Grammar(dump_step, ...)]`` the union is what may
    be written; what is read back is always the text that the adapter gets.

    Attributes:
        read: The function; it raises ValueError with one sentence. The reference shows its
            docstring up to the sections.
        words: What may be written, where the JSON schema does not say it.
    """

    def __init__(
        self, read: Callable[[Any], str], schema: Mapping[str, Any], words: str = ""
    ) -> None:
        self.read = read
        self.words = words
        self._schema = schema

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(
            self.read, core_schema.str_schema(strict=True)
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Dict[str, Any]:
        return dict(self._schema)


def _list_of(items: Mapping[str, Any], **limits: int) -> Dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def _mapping_of(items: Mapping[str, Any]) -> Dict[str, Any]:
    return {"type": "object", "additionalProperties": items}


def _text_or(*forms: Mapping[str, Any]) -> Dict[str, Any]:
    return {"anyOf": [_TEXT, *forms]}


_TEXT = {"type": "string"}
_INT = {"type": "integer"}
_COUNT = {"type": "integer", "minimum": 1}
_STEP = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_STEP_RANGE = _list_of(_STEP, minItems=2, maxItems=2)
_STEPS = _list_of({"anyOf": [_STEP, _STEP_RANGE]}, maxItems=100)
_DEVICES = _list_of({"type": "integer", "minimum": 0, "maximum": 9})
_CORES = _list_of({"anyOf": [_COUNT, {"type": "null"}]}, maxItems=2)
_NAMES = _text_or(_list_of(_TEXT, minItems=1))
_MODE = {"type": "object", "required": ["kind", "trigger"]}
_MULTISTREAM = "^(cv|(LoadBalance|MainStream|WeightedLoadBalance):[1-9][0-9]?)$"
_DIM = {"type": "integer", "minimum": -1}
_SHAPES = _list_of(_list_of({"anyOf": [_DIM, _list_of(_INT, minItems=2, maxItems=2)]}))
_RANGES = {
    "type": "object",
    "properties": {"getnext": _SHAPES, "data": _SHAPES},
    "additionalProperties": False,
}
_PROFILES = _list_of(_list_of(_COUNT, minItems=1), minItems=2, maxItems=256)
_PROFILING = {
    "anyOf": [
        {"type": "string", "maxLength": profiling_options.MOST_BYTES},
        {
            "type": "object",
            "properties": {n: member.schema for n, member in profiling_options.MEMBERS.items()},
            "additionalProperties": _TEXT,
        },
    ]
}

PathText = Annotated[Union[str, PathLike], Grammar(single_values.path_text, _TEXT, "path")]
CommaNames = Annotated[Union[str, Sequence[str]], Grammar(lists.comma_names, _NAMES)]
DumpStep = Annotated[
    Union[str, int, Sequence[Any]], Grammar(lists.dump_step, _text_or(_STEP, _STEPS))
]
DumpLayer = Annotated[Union[str, Sequence[str]], Grammar(lists.dump_layer, _NAMES)]
InputShape = Annotated[
    Union[str, Mapping[str, Sequence[int]]],
    Grammar(shapes.input_shape, _text_or(_mapping_of(_list_of(_DIM)))),
]
DynamicDims = Annotated[
    Union[str, Sequence[Sequence[int]]], Grammar(shapes.dynamic_dims, _text_or(_PROFILES))
]
ShapeRange = Annotated[
    Union[str, Mapping[str, Any]], Grammar(shapes.dynamic_inputs_shape_range, _text_or(_RANGES))
]
AccelerateMode = Annotated[
    Union[str, Sequence[Any], Mapping[str, Any]],
    Grammar(accelerate.accelerate_train_mode, _text_or({"type": "array"}, _MODE)),
]
StreamParallel = Annotated[
    Union[str, Mapping[str, int]],
    Grammar(named_values.stream_max_parallel_num, _text_or(_mapping_of(_COUNT))),
]
DeviceList = Annotated[
    Union[str, Sequence[int]], Grammar(lists.local_device_list, _text_or(_DEVICES))
]
CoreNumber = Annotated[Union[str, Sequence[int]], Grammar(lists.aicore_num, _text_or(_CORES))]
MultistreamMode = Annotated[
    str,
    Grammar(
        named_values.auto_multistream_parallel_mode, {"type": "string", "pattern": _MULTISTREAM}
    ),
]
PassSwitch = Annotated[
    Union[str, Mapping[str, bool]],
    Grammar(named_values.optimization_switch, _text_or(_mapping_of({"type": "boolean"}))),
]
InOutPair = Annotated[
    Union[str, Sequence[Any]],
    Grammar(lists.in_out_pair, _text_or({"type": "array", "minItems": 1})),
]
MemorySize = Annotated[
    Union[str, int],
    Grammar(
        single_values.memory_size, {"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, _COUNT]}
    ),
]
ProfilingText = Annotated[
    Union[str, Mapping[str, str], profiling_options.ProfilingOptions],
    Grammar(profiling_options.profiling_options, _PROFILING),
]


class FileGrammar(Grammar):
    """A path, or an object of ascend_session.option_files with the content of the file."""

    def __init__(self, option: str) -> None:
        schema = _text_or({"type": "object"})
        super().__init__(self.read_value, schema, f"path or {TYPE_NAMES[option]}")
        self._option = option

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, core_schema.any_schema())

    def read_value(self, value: object) -> Any:
        """A path, or an object of ascend_session.option_files with the content of the file.

        In a configuration file, write the object as a mapping of its fields. The file is made
        when the system opens: in ascend_option_files, below ASCEND_WORK_PATH or the working
        directory.

        Raises:
            ValueError: If it is neither; a ConfigError if the fields of a mapping are wrong.
        """
        if isinstance(value, (str, bytes, os.PathLike)):
            return single_values.path_text(value)
        kind = file_type(self._option)
        if isinstance(value, Mapping):
            return kind.of(value)
        if isinstance(value, kind):
            return value
        raise ValueError(
            f"{value!r} cannot be used: a path or {kind.__name__} is needed, this is "
            f"{type(value).__name__}."
        )


if TYPE_CHECKING:
    OpPrecisionFile = Union[str, PathLike, Mapping[str, Any], option_files.OpPrecision]
    MixListFile = Union[str, PathLike, Mapping[str, Any], option_files.MixList]
    CustomDtypesFile = Union[str, PathLike, Mapping[str, Any], option_files.CustomDtypes]
    FusionSwitchFile = Union[str, PathLike, Mapping[str, Any], option_files.FusionSwitch]
    OpDebugFile = Union[str, PathLike, Mapping[str, Any], option_files.OpDebugConfig]
    AippFile = Union[str, PathLike, Mapping[str, Any], option_files.Aipp]
    AoeFile = Union[str, PathLike, Mapping[str, Any], option_files.AoeConfigFile]
else:
    OpPrecisionFile = Annotated[Any, FileGrammar("op_precision_mode")]
    MixListFile = Annotated[Any, FileGrammar("modify_mixlist")]
    CustomDtypesFile = Annotated[Any, FileGrammar("customize_dtypes")]
    FusionSwitchFile = Annotated[Any, FileGrammar("fusion_switch_file")]
    OpDebugFile = Annotated[Any, FileGrammar("op_debug_config")]
    AippFile = Annotated[Any, FileGrammar("insert_op_file")]
    AoeFile = Annotated[Any, FileGrammar("aoe_config_file")]

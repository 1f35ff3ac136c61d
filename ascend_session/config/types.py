"""The types that option definitions share: ranges, paths and the vendor's word lists.

Sources: options.json (ranges, allowed values) and SetNpuOptimizerAttr in npu_attrs.cc.
"""

from os import PathLike
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, Union

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import Annotated, Literal

from ascend_session.config import profiling_options, shapes, values
from ascend_session.config.file_values import FILE_SCHEMA, FileValue

INT32_MAX = 2**31 - 1

TextSwitch = Literal["0", "1"]
AutoManual = Literal["auto", "manual"]

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


if TYPE_CHECKING:
    from ascend_session import option_files

    Switch = Literal[0, 1]
    UpTo2 = Literal[0, 1, 2]
    UpTo3 = Literal[0, 1, 2, 3]
    UpTo4 = Literal[0, 1, 2, 3, 4]

    # What may be written; what is read back is always the text that the adapter gets.
    PathText = Union[str, "PathLike[str]"]
    OpPrecisionFile = Union[PathText, Mapping[str, Any], option_files.OpPrecision]
    MixListFile = Union[PathText, Mapping[str, Any], option_files.MixList]
    CustomDtypesFile = Union[PathText, Mapping[str, Any], option_files.CustomDtypes]
    FusionSwitchFile = Union[PathText, Mapping[str, Any], option_files.FusionSwitch]
    OpDebugFile = Union[PathText, Mapping[str, Any], option_files.OpDebugConfig]
    AippFile = Union[PathText, Mapping[str, Any], option_files.Aipp]
    AoeFile = Union[PathText, Mapping[str, Any], option_files.AoeConfigFile]
    CommaNames = Union[str, Sequence[str]]
    DumpStep = Union[str, int, Sequence[Any]]
    DumpLayer = Union[str, Sequence[str]]
    InputShape = Union[str, Mapping[str, Sequence[int]]]
    DynamicDims = Union[str, Sequence[Sequence[int]]]
    ShapeRange = Union[str, Mapping[str, Any]]
    AccelerateMode = Union[str, Sequence[Any], Mapping[str, Any]]
    StreamParallel = Union[str, Mapping[str, int]]
    DeviceList = Union[str, Sequence[int]]
    CoreNumber = Union[str, Sequence[int]]
    MultistreamMode = str
    PassSwitch = Union[str, Mapping[str, bool]]
    InOutPair = Union[str, Sequence[Any]]
    MemorySize = Union[str, int]
    ProfilingText = Union[str, Mapping[str, str], profiling_options.ProfilingOptions]
else:

    def _plain_int(value: Any) -> Any:
        """True, 1.0 and numpy's numbers equal 1, which is enough for some releases of pydantic."""
        if type(value) is not int:
            raise PydanticCustomError("literal_error", "no plain int")
        return value

    Switch = Annotated[Literal[0, 1], BeforeValidator(_plain_int)]
    UpTo2 = Annotated[Literal[0, 1, 2], BeforeValidator(_plain_int)]
    UpTo3 = Annotated[Literal[0, 1, 2, 3], BeforeValidator(_plain_int)]
    UpTo4 = Annotated[Literal[0, 1, 2, 3, 4], BeforeValidator(_plain_int)]

    def _text(render: Callable[[Any], str], schemas: Mapping[str, Any]) -> Any:
        """A string that ``render`` takes as it is or makes from a structured value."""
        return Annotated[str, BeforeValidator(render), WithJsonSchema(schemas[render.__name__])]

    PathText = Annotated[str, BeforeValidator(values.path_text), WithJsonSchema({"type": "string"})]

    def _file(option: str) -> Any:
        """A path, or the file as an object."""
        return Annotated[Any, BeforeValidator(FileValue(option)), WithJsonSchema(FILE_SCHEMA)]

    OpPrecisionFile = _file("op_precision_mode")
    MixListFile = _file("modify_mixlist")
    CustomDtypesFile = _file("customize_dtypes")
    FusionSwitchFile = _file("fusion_switch_file")
    OpDebugFile = _file("op_debug_config")
    AippFile = _file("insert_op_file")
    AoeFile = _file("aoe_config_file")

    CommaNames = _text(values.comma_names, values.SCHEMAS)
    DumpStep = _text(values.dump_step, values.SCHEMAS)
    DumpLayer = _text(values.dump_layer, values.SCHEMAS)
    InputShape = _text(shapes.input_shape, shapes.SCHEMAS)
    DynamicDims = _text(shapes.dynamic_dims, shapes.SCHEMAS)
    ShapeRange = _text(shapes.dynamic_inputs_shape_range, shapes.SCHEMAS)
    AccelerateMode = _text(values.accelerate_train_mode, values.SCHEMAS)
    StreamParallel = _text(values.stream_max_parallel_num, values.SCHEMAS)
    DeviceList = _text(values.local_device_list, values.SCHEMAS)
    CoreNumber = _text(values.aicore_num, values.SCHEMAS)
    MultistreamMode = _text(values.auto_multistream_parallel_mode, values.SCHEMAS)
    PassSwitch = _text(values.optimization_switch, values.SCHEMAS)
    InOutPair = _text(values.in_out_pair, values.SCHEMAS)
    MemorySize = _text(values.memory_size, values.SCHEMAS)
    ProfilingText = _text(profiling_options.profiling_options, profiling_options.SCHEMAS)

"""The vendor's message InsertNewOps, as protobuf knows it.

GE reads the file with protobuf's own text parser (ReadProtoFromText), and so does this: the same
library comes with every TensorFlow. It is no dependency of this package, and asked for only when
such a file is read.
"""

import functools
import importlib
from typing import Any, Dict, Sequence

from ascend_session.errors import UnsupportedError
from ascend_session.option_files.aipp_fields import AIPP_MODES, INPUT_FORMATS, aipp_fields

__all__ = ["message_class", "protobuf"]

_TYPES: Dict[str, int] = {"int32": 5, "uint32": 13, "bool": 8, "float": 2, "string": 9}
_MESSAGE, _ENUM = 11, 14
_ONE, _MANY = 1, 3
_OPS = {"aipp_op": "AippOpParams", "multi_shape_op": "MultiShapeOpParams"}


def protobuf(module: str) -> Any:
    """A module of protobuf.

    Raises:
        UnsupportedError: If it is not installed.
    """
    try:
        return importlib.import_module(f"google.protobuf.{module}")
    except ImportError as error:
        raise UnsupportedError(
            f"An AIPP file is read with protobuf, which cannot be imported: {error}.",
            hint="It comes with TensorFlow; alone: pip install protobuf.",
        ) from error


@functools.lru_cache(maxsize=None)
def message_class() -> Any:
    """The class of the message; made once."""
    file = protobuf("descriptor_pb2").FileDescriptorProto(
        name="ascend_session/insert_op.proto", package="domi", syntax="proto3"
    )
    ops = file.message_type.add(name="InsertNewOps")
    ops.field.add(
        name="aipp_op", number=1, label=_MANY, type=_MESSAGE, type_name=".domi.AippOpParams"
    )
    ops.field.add(
        name="multi_shape_op",
        number=2,
        label=_MANY,
        type=_MESSAGE,
        type_name=".domi.MultiShapeOpParams",
    )
    _add_aipp(file.message_type.add(name="AippOpParams"))
    _add_multi_shape(file.message_type.add(name="MultiShapeOpParams"))
    pool = protobuf("descriptor_pool").DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName("domi.InsertNewOps")
    factory = protobuf("message_factory")
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(found)
    return factory.MessageFactory(pool).GetPrototype(found)


def _add_aipp(message: Any) -> None:
    _add_enum(message, "AippMode", AIPP_MODES)
    _add_enum(message, "InputFormat", INPUT_FORMATS)
    for field in aipp_fields():
        made = message.field.add(name=field.name, number=field.number)
        made.label = _ONE if field.form == "one" else _MANY
        made.type = _TYPES.get(field.kind, _ENUM)
        if made.type == _ENUM:
            made.type_name = f".domi.AippOpParams.{field.kind}"


def _add_enum(message: Any, name: str, words: Sequence[str]) -> None:
    enum = message.enum_type.add(name=name)
    for number, word in enumerate(words):
        enum.value.add(name=word, number=number)


def _add_multi_shape(message: Any) -> None:
    _add_enum(message, "MultiShapeMode", ("batch", "resolution"))
    message.field.add(
        name="mode",
        number=1,
        label=_ONE,
        type=_ENUM,
        type_name=".domi.MultiShapeOpParams.MultiShapeMode",
    )
    message.field.add(name="related_input_rank", number=2, label=_ONE, type=_TYPES["uint32"])
    message.field.add(name="batch_list", number=11, label=_MANY, type=_TYPES["uint32"])

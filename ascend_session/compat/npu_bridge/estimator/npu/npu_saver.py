"""``npu_bridge.estimator.npu.npu_saver``: savers, before which owners send their variables.

The vendor's sends them when a checkpoint is saved; here they are sent in each step
(`optimizers.sent_by_owners`), so that savers have nothing to add. Source: npu_saver.py.
"""

from typing import Any

from tensorflow.python.training.saver import BulkSaverBuilder

from ascend_session.compat.signatures import with_signature
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import mirror

_Builder: Any = BulkSaverBuilder
_Saver: Any = tf1.train.Saver


class NPUBulkSaverBuilder(_Builder):  # type: ignore[misc]
    """What builds the operators of an `NPUSaver`."""


class NPUSaver(_Saver):  # type: ignore[misc]
    """``tf.train.Saver``; its arguments."""

    @with_signature(
        "(var_list=None, reshape=False, sharded=False, max_to_keep=5, "
        "keep_checkpoint_every_n_hours=10000.0, name=None, restore_sequentially=False, "
        "saver_def=None, builder=None, defer_build=False, allow_empty=False, write_version=2, "
        "pad_step_number=False, save_relative_paths=False, filename=None)"
    )
    def __init__(self, **given: Any) -> None:
        """Takes the arguments of ``tf.train.Saver``; a builder is not asked, as by the vendor's."""
        given["builder"] = None
        super().__init__(**given)


__getattr__, __all__ = mirror(
    globals(),
    "tf BulkSaverBuilder Saver context saveable_object_util saver_pb2 ops array_ops "
    "variables util hccl_ops",
)

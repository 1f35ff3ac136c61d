"""A script for the adapter of TensorFlow 2."""

import npu_device  # expect: other-adapter
import tensorflow as tf

npu_device.open().as_default()
tf.constant(1)

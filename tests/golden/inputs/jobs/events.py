"""Two sessions of one system."""

import tensorflow.compat.v1 as tf

from ascend_session import AscendConfig, ascend_session, ascend_system

tf.disable_eager_execution()
with ascend_system(AscendConfig(precision_mode="force_fp16")) as system:
    with system.session():
        with ascend_session(device_id=0):
            pass
print(*[f"{event.name}: {event.detail}" for event in system.events], sep="\n")

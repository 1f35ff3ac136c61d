import os

import tensorflow as tf
from npu_bridge.npu_init import *

optimizer = tf.train.AdamOptimizer()
manager = FixedLossScaleManager(loss_scale=1024)
if int(os.getenv("RANK_SIZE", "1")) > 1:
    optimizer = NPUDistributedOptimizer(optimizer)
    optimizer = NPULossScaleOptimizer(optimizer, manager, is_distributed=True)
else:
    optimizer = NPULossScaleOptimizer(optimizer, manager)

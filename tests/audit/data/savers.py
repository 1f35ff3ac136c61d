import tensorflow as tf
from npu_bridge.npu_init import *

config = npu_config_proto()
with tf.train.MonitoredTrainingSession(  # expect: sharded-saver?
    config=config, checkpoint_dir="checkpoints", hooks=[tf.train.StopAtStepHook(9)]
) as sess:
    sess.run(train_op)
tf.train.MonitoredTrainingSession("", True, "checkpoints", config=config)  # expect: sharded-saver?
tf.train.MonitoredTrainingSession(config=config)
tf.train.MonitoredTrainingSession(config=config, checkpoint_dir=None)
tf.train.MonitoredTrainingSession(
    config=config,
    checkpoint_dir="checkpoints",
    scaffold=tf.train.Scaffold(saver=tf.train.Saver()),
)
tf.train.MonitoredTrainingSession(config=config, **options)

import tensorflow as tf
from npu_bridge.npu_init import *

if tf.app.flags.FLAGS.fast:
    config = NPURunConfig(iterations_per_loop=10, save_checkpoints_steps=10)
else:
    config = NPURunConfig()
estimator = NPUEstimator(model_fn=model_fn, config=config, params={})
estimator.train(input_fn=input_fn, max_steps=25)

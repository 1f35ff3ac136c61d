import tensorflow as tf
from npu_bridge.npu_init import *

STEPS = 25
config = NPURunConfig(iterations_per_loop=10, save_checkpoints_steps=10, enable_data_pre_proc=True)  # expect: deprecated-option
estimator = NPUEstimator(model_fn=model_fn, config=config, params={})
estimator.train(input_fn=input_fn, max_steps=STEPS)  # expect: loop-remainder
estimator.train(input_fn, steps=7, max_steps=None)  # expect: loop-remainder
estimator.train(input_fn=input_fn, hooks=[tf.train.StopAtStepHook(num_steps=15)])  # expect: loop-remainder
spec = tf.estimator.TrainSpec(input_fn, 1001)  # expect: loop-remainder
# multiples, what is not known, what trains nothing, and functions of the script
estimator.train(input_fn=input_fn, max_steps=1000)
estimator.train(input_fn=input_fn, max_steps=tf.app.flags.FLAGS.steps)
estimator.evaluate(input_fn=input_fn, steps=3)
spec = tf.estimator.EvalSpec(input_fn, steps=3)
model.train(steps=3)

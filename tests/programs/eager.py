"""Opens sessions while eager execution is on, with and without a graph."""

import tensorflow.compat.v1 as tf

from ascend_session import LifecycleError, ascend_session, current_system

tf.enable_eager_execution()

try:
    ascend_session().__enter__()
except LifecycleError as refusal:
    print("LifecycleError", str(refusal).replace("\n", " "))
assert current_system() is None

graph = tf.Graph()
with graph.as_default():
    answer = tf.constant(7)
with ascend_session(graph=graph) as sess:
    print(sess.run(answer))

with graph.as_default(), ascend_session() as sess:
    print(sess.run(answer))
